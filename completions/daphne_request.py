"""Daphne's request, without the form parser that runs before any application."""

from daphne import http_protocol


class UnparsedRequest(http_protocol.WebRequest):  # type: ignore[misc]
    """Hides the Content-Type while Twisted receives the body.

    Twisted parses form bodies itself and answers a broken one with a bare 400, where the contract
    has 415 for every form (spec section 1, trap 3); it also keeps what it parsed in memory.
    """

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        """The body is complete."""
        self._content_types = self.requestHeaders.getRawHeaders(b"content-type", [])
        self.requestHeaders.removeHeader(b"content-type")
        super().requestReceived(command, path, version)

    def process(self) -> None:
        """Hand the request over as it came."""
        if self._content_types:
            self.requestHeaders.setRawHeaders(b"content-type", self._content_types)
        super().process()


def install() -> None:
    """Let servers of this process use it; daphne has no setting for the class."""
    http_protocol.WebRequest = UnparsedRequest
