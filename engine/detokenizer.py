"""Token ids to text, as they come."""

import codecs
from collections.abc import Sequence


class Detokenizer:
    """Joins the tokens' true bytes; an incomplete character is held back until it is whole."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def append(self, token_id: int) -> str:
        """The text that is complete with this token."""
        return self._decoder.decode(self._token_bytes[token_id])

    def flush(self) -> str:
        """What is left at the end, with a replacement character for an incomplete one."""
        return self._decoder.decode(b"", final=True)
