"""Text to token ids and back, over the `tokenizers` library."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from engine.errors import InvalidRequest, UnsupportedModel
from engine.model_folder import ModelFolder

TOKENIZER_FILE = "tokenizer.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"

_SPECIAL_TOKEN_ROLES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


class Tokenizer:
    """A prepared model's tokenizer; any number of threads may share one.

    Ids without a token (a vocabulary with holes) count as special and have no bytes.
    `eos_token_ids` None takes them from the model's configuration.
    """

    def __init__(self, path: Path, eos_token_ids: tuple[int, ...] | None = None) -> None:
        text = (path / TOKENIZER_FILE).read_text()
        self._tokenizer = tokenizers.Tokenizer.from_str(text)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._added = self._tokenizer.get_added_tokens_decoder()
        self._is_byte_level = _is_byte_level(json.loads(text))
        self._roles: dict[str, Any] = json.loads((path / SPECIAL_TOKENS_FILE).read_text())
        if eos_token_ids is None:
            eos_token_ids = ModelFolder(path).config.eos_token_ids
        self.eos_token_ids = eos_token_ids

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Split a text into tokens; special tokens written out in it become their ids.

        Raises InvalidRequest for a text that is no Unicode (a lone surrogate).
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                "prompt", f"Character {error.start} is a lone surrogate, which is no text."
            ) from None
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, token_ids: list[int]) -> str:
        """The text of a sequence, its special tokens written out."""
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=False))

    @cached_property
    def vocab_size(self) -> int:
        """Ids are below this."""
        ids: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return 1 + max(ids.values())

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The true bytes of every token, by id."""
        spell = _spell_byte_level if self._is_byte_level else _spell_sentencepiece
        table = [b""] * self.vocab_size
        for token, token_id in self._tokenizer.get_vocab(with_added_tokens=False).items():
            table[token_id] = spell(token)
        for token_id, added in self._added.items():
            table[token_id] = added.content.encode()
        return table

    def is_special(self, token_id: int) -> bool:
        """Whether a token stands for no text."""
        added = self._added.get(token_id)
        return added.special if added else not self.token_bytes[token_id]

    def token_name(self, token_id: int) -> str:
        r"""How a token is written in logprobs: its text, or `bytes:\xf0\x9f` (spec section 6)."""
        spelled = self.token_bytes[token_id]
        try:
            return spelled.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)

    @property
    def added_tokens(self) -> list[str]:
        """The tokens that are matched before a text is split, special ones among them."""
        return [added.content for added in self._added.values()]

    @cached_property
    def special_tokens(self) -> dict[str, str | None]:
        """The token of each role ("eos_token", "bos_token", ...), None where there is none."""
        return {role: _content(self._roles.get(role)) for role in _SPECIAL_TOKEN_ROLES}


def _content(entry: Any) -> str | None:
    """A special token's text, which is stored bare or with its attributes."""
    content: str | None = entry["content"] if isinstance(entry, dict) else entry
    return content


def _is_byte_level(facts: dict[str, Any]) -> bool:
    decoder = facts["decoder"] or {"type": "none"}
    kinds = {each["type"] for each in decoder.get("decoders", [decoder])}
    if "ByteLevel" in kinds:
        return True
    if kinds & {"Metaspace", "Replace", "ByteFallback"}:
        return False
    raise UnsupportedModel(
        f"the tokenizer is neither byte-level nor SentencePiece: {sorted(kinds)}"
    )


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's characters for bytes: printable ones stand for themselves, others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    shifted = {chr(0x100 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


_BYTES = _byte_alphabet()
_BYTE_TOKEN_LENGTH = len("<0x00>")


def _spell_byte_level(token: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in token)
    except KeyError:  # not of the alphabet, so it stands for itself, as in the library's decoder
        return token.encode()


def _spell_sentencepiece(token: str) -> bytes:
    if len(token) == _BYTE_TOKEN_LENGTH and token.startswith("<0x") and token.endswith(">"):
        return bytes.fromhex(token[3:5])
    return token.replace("▁", " ").encode()
