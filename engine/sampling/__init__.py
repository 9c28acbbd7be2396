"""From logits to tokens and logprobs, for a whole batch at once (spec section 4)."""

from engine.sampling.logprobs import PromptLogprobs, prompt_logprobs
from engine.sampling.sampler import Sampler, SamplerOutput
from engine.sampling.state import CandidateState

__all__ = ["CandidateState", "PromptLogprobs", "Sampler", "SamplerOutput", "prompt_logprobs"]
