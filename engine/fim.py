"""Which special tokens a model has for filling in the middle of a text."""

from collections.abc import Collection

from engine.model_folder import FimTemplate

_TEMPLATES = (
    FimTemplate("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen-Coder, CodeGemma
    FimTemplate("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder
    FimTemplate("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    FimTemplate("▁<PRE>", "▁<SUF>", "▁<MID>"),  # CodeLlama
    FimTemplate("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # noqa: RUF001 - DeepSeek-Coder
    FimTemplate("[PREFIX]", "[SUFFIX]", "", suffix_first=True),  # Codestral
)


def find_fim_template(special_tokens: Collection[str]) -> FimTemplate | None:
    """The template whose tokens are all there, or None: the model can't fill in."""
    for template in _TEMPLATES:
        tokens = {template.prefix, template.suffix, template.middle} - {""}
        if tokens <= set(special_tokens):
            return template
    return None
