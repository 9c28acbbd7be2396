import pytest

from completions.exceptions import BadRequest, BodyTooLarge, UnsupportedMediaType
from completions.parsers import check_media_type, parse_object, read_body


@pytest.mark.parametrize(
    "value", ["application/json", "Application/JSON;charset=UTF-8", "application/json ; a=b"]
)
def test_json_media_types(value):
    check_media_type(value)


@pytest.mark.parametrize(
    "value", ["", "text/plain", "application/x-www-form-urlencoded", "application/json-patch+json"]
)
def test_other_media_types(value):
    with pytest.raises(UnsupportedMediaType, match="application/json"):
        check_media_type(value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": {"b": [-1e999]}}',
        b'{"a": "\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"a": 1} {}',
        b'{"a": 1,}',
        b"[" * 100_000,
        b'{"a": ' * 100_000,
        b'{"a": ' + b"1" * 5000 + b"}",
        '{"a": 1}'.encode("utf-16"),
    ],
)
def test_unacceptable_bodies(body):
    with pytest.raises(BadRequest):
        parse_object(body)


def test_numbers_stay_exact():
    body = b'{"seed": 9223372036854775807, "huge": 123456789012345678901234567890, "half": 0.5}'
    assert parse_object(body) == {
        "seed": 9223372036854775807,
        "huge": 123456789012345678901234567890,
        "half": 0.5,
    }


async def test_body_is_read_up_to_the_limit(settings):
    settings.COMPLETIONS = {"MAX_BODY_BYTES": 10}
    read = 0

    async def pieces():
        nonlocal read
        for _ in range(100):
            read += 1
            yield b"1234"

    with pytest.raises(BodyTooLarge, match="10 bytes"):
        await read_body(pieces())
    assert read == 3


async def test_body_of_exactly_the_limit(settings):
    settings.COMPLETIONS = {"MAX_BODY_BYTES": 8}

    async def pieces():
        yield b"1234"
        yield b"5678"

    assert await read_body(pieces()) == b"12345678"
