"""Requests for the engine over the tiny model, and loops that run them."""

from engine.config import EngineConfig
from engine.engine import Engine
from engine.outputs import RequestOutput
from engine.request import Prompt, Request
from engine.sampling_params import SamplingParams


def make_engine(folder, **config):
    settings = {"max_num_seqs": 4, "prefill_chunk": 8, "num_threads": 1} | config
    return Engine(EngineConfig(model=folder.path, provider="cpu", **settings))


def request(name, ids, **params):
    """A request of one prompt, or of several if `ids` is a list of lists."""
    prompts = ids if isinstance(ids[0], list) else [ids]
    return Request(name, tuple(Prompt(each) for each in prompts), SamplingParams(**params))


def run(engine, *requests, arrivals=None):
    """Run requests, each added before the step that `arrivals` gives it; outputs by id."""
    arrivals = arrivals or [0] * len(requests)
    outputs = {each.request_id: RequestOutput(each.request_id) for each in requests}
    step = 0
    while engine.has_work or step <= max(arrivals):
        for each, at in zip(requests, arrivals, strict=True):
            if at == step:
                engine.check(each)
                engine.add(each)
        for output in engine.step():
            outputs[output.request_id].merge(output)
        step += 1
    return outputs


def gains(output):
    """What each candidate has, without its times: text, tokens, logprobs and why it ended."""
    return {
        key: (
            each.text,
            each.num_tokens,
            [(entry.token_id, entry.text_offset) for entry in each.logprobs],
            each.finish_reason,
            each.stop_reason,
        )
        for key, each in output.candidates.items()
    }


def texts(output):
    return [output.candidates[key].text for key in sorted(output.candidates)]
