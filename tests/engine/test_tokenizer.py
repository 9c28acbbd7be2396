import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers

from engine.errors import InvalidRequest, UnsupportedModel
from engine.model_folder import ModelFolder
from engine.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_model: ModelFolder) -> Tokenizer:
    return Tokenizer(tiny_model.path)


@pytest.fixture
def sentencepiece(tmp_path) -> Tokenizer:
    pieces = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xE2>", "<0x98>", "<0x83>", "▁the", "▁", "cat"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    built = tokenizers.Tokenizer(models.BPE(vocabulary, [], byte_fallback=True, unk_token="<unk>"))
    built.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    built.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    built.add_special_tokens(["<unk>", "<s>", "</s>"])
    built.add_tokens([AddedToken("  ", normalized=False)])
    built.save(str(tmp_path / "tokenizer.json"))
    roles = {"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": "</s>"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(roles))
    return Tokenizer(tmp_path, eos_token_ids=(2,))


def spelled(tokenizer: Tokenizer, ids: list[int]) -> str:
    """The obvious way from ids to text."""
    return b"".join(tokenizer.token_bytes[each] for each in ids).decode()


@given(text=st.text())
def test_byte_level_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    assert spelled(tokenizer, ids) == text


def test_special_tokens_are_added_on_demand_only(tokenizer: Tokenizer) -> None:
    bare = tokenizer.encode("the", add_special_tokens=False)
    assert tokenizer.encode("the", add_special_tokens=True) == [0, *bare]


def test_special_tokens_written_out_become_one_id(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a</s>b", add_special_tokens=False)
    assert ids[1] == 1
    assert len(ids) == 3
    assert tokenizer.decode(ids) == "a</s>b"


def test_lone_surrogates_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidRequest, match="Character 1") as caught:
        tokenizer.encode("a\ud800", add_special_tokens=False)
    assert caught.value.param == "prompt"


def test_every_token_has_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 300 == len(tokenizer.token_bytes)
    assert all(tokenizer.token_bytes)
    assert {bytes([byte]) for byte in range(256)} <= set(tokenizer.token_bytes)


def test_names_of_whole_and_broken_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the☃", add_special_tokens=True)
    names = [tokenizer.token_name(each) for each in ids]
    assert names == ["<s>", "the", r"bytes:\xe2", r"bytes:\x98", r"bytes:\x83"]


def test_special_ids_and_roles(tokenizer: Tokenizer) -> None:
    assert [each for each in range(tokenizer.vocab_size) if tokenizer.is_special(each)] == [0, 1]
    assert tokenizer.eos_token_ids == (1,)
    assert tokenizer.special_tokens["eos_token"] == "</s>"
    assert tokenizer.special_tokens["pad_token"] is None


def test_padding_and_truncation_of_the_file_are_ignored(tiny_model, tmp_path) -> None:
    built = tokenizers.Tokenizer.from_file(str(tiny_model.path / "tokenizer.json"))
    built.enable_truncation(4)
    built.enable_padding(length=16)
    built.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "special_tokens_map.json").write_text("{}")
    assert len(Tokenizer(tmp_path, ()).encode("xyzxyz", add_special_tokens=True)) == 7


def test_threads_share_a_tokenizer(tokenizer: Tokenizer) -> None:
    texts = [f"the cat number {number}" for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(tokenizer.encode, texts))
    assert [tokenizer.decode(each) for each in ids] == [f"<s>{text}" for text in texts]


def test_sentencepiece_bytes(sentencepiece: Tokenizer) -> None:
    ids = sentencepiece.encode("☃\n", add_special_tokens=False)
    assert spelled(sentencepiece, ids) == " ☃\n"
    assert sentencepiece.decode(ids) == "☃\n"
    assert sentencepiece.token_name(7) == " the"
    assert sentencepiece.token_name(4) == r"bytes:\xe2"
    assert sentencepiece.token_name(2) == "</s>"
    assert sentencepiece.special_tokens["bos_token"] == "<s>"


def test_added_tokens_may_be_ordinary_text(sentencepiece: Tokenizer) -> None:
    (double_space,) = sentencepiece.encode("  ", add_special_tokens=False)
    assert not sentencepiece.is_special(double_space)
    assert sentencepiece.token_bytes[double_space] == b"  "


def test_other_vocabularies_are_refused(tmp_path) -> None:
    built = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    built.decoder = decoders.WordPiece()
    built.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "special_tokens_map.json").write_text("{}")
    with pytest.raises(UnsupportedModel, match="WordPiece"):
        Tokenizer(tmp_path, ())
