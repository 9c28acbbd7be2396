import pytest

from engine.fim import find_fim_template

TOKENS = {
    "qwen2.5-coder": ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"],
    "codegemma": ["<bos>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    "starcoder2": ["<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"],
    "codellama": ["<s>", "</s>", "▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"],
    "deepseek-coder": ["<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>", "<|EOT|>"],
    "codestral": ["<s>", "[INST]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"],
}


@pytest.mark.parametrize(
    ("model", "prefix", "suffix", "middle"),
    [
        ("qwen2.5-coder", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        ("codegemma", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        ("starcoder2", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        ("codellama", "▁<PRE>", "▁<SUF>", "▁<MID>"),
        ("deepseek-coder", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
        ("codestral", "[PREFIX]", "[SUFFIX]", ""),
    ],
)
def test_families_with_fim_tokens(model: str, prefix: str, suffix: str, middle: str) -> None:
    template = find_fim_template(TOKENS[model])
    assert template is not None
    assert (template.prefix, template.suffix, template.middle) == (prefix, suffix, middle)
    assert template.suffix_first == (model == "codestral")


@pytest.mark.parametrize("tokens", [[], ["<s>", "</s>"], ["<fim_prefix>", "<fim_suffix>"]])
def test_models_without_all_of_them(tokens: list[str]) -> None:
    assert find_fim_template(tokens) is None
