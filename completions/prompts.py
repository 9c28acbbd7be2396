"""From the prompts of a request to the engine's."""

from typing import TYPE_CHECKING

from completions.completion_request import CompletionRequest
from completions.exceptions import BadRequest
from engine.model_folder import FimTemplate, ModelConfig
from engine.request import Prompt

if TYPE_CHECKING:
    from engine.tokenizer import Tokenizer


def encode_prompts(
    request: CompletionRequest, model: ModelConfig, tokenizer: "Tokenizer"
) -> tuple[Prompt, ...]:
    """Tokenize texts, around the hole if there is a suffix; token prompts stay as they are."""
    return tuple(
        _encode(_fill_in(prompt, request.suffix, model), request.add_special_tokens, tokenizer)
        if isinstance(prompt, str)
        else Prompt(prompt)
        for prompt in request.prompts
    )


def prompt_texts(request: CompletionRequest, tokenizer: "Tokenizer") -> list[str]:
    """The prompts as an echo shows them: texts verbatim, token ids decoded."""
    return [
        prompt if isinstance(prompt, str) else tokenizer.decode(prompt)
        for prompt in request.prompts
    ]


def check_suffix(request: CompletionRequest, model: ModelConfig) -> None:
    """Raise 400 if a suffix is given that the model has no tokens for."""
    if request.suffix and model.fim is None:
        raise BadRequest("suffix: this model has no fill-in-the-middle tokens.", "suffix")


def _encode(text: str, add_special_tokens: bool, tokenizer: "Tokenizer") -> Prompt:
    token_ids = tokenizer.encode(text, add_special_tokens=add_special_tokens)
    if not token_ids:
        raise BadRequest("prompt: the tokenizer makes no token of it.", "prompt")
    return Prompt(token_ids, text)


def _fill_in(prompt: str, suffix: str | None, model: ModelConfig) -> str:
    if suffix is None or model.fim is None:
        return prompt
    return fim_prompt(model.fim, prompt, suffix)


def fim_prompt(template: FimTemplate, prompt: str, suffix: str) -> str:
    """The fill-in-the-middle prompt, in the order that the model was trained on."""
    before, after = template.prefix + prompt, template.suffix + suffix
    parts = (after, before) if template.suffix_first else (before, after)
    return "".join(parts) + template.middle
