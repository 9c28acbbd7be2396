"""What all views of the contract share: strict bodies, and its own errors."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import MethodNotAllowed as DrfMethodNotAllowed
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from completions.exceptions import MethodNotAllowed, as_api_error
from completions.openapi import ContractSchema
from completions.parsers import check_media_type, check_size, parse_object
from completions.serializers import ClosedSerializer, validate

PIECE_BYTES = 1 << 16


class ContractView(APIView):
    """A DRF view without DRF's negotiation, authentication and error bodies."""

    http_method_names = ["get", "head", "post"]  # noqa: RUF012
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()
    parser_classes = (JSONParser,)
    renderer_classes = (JSONRenderer,)
    schema = ContractSchema()

    def perform_content_negotiation(
        self,
        request: Request,  # noqa: ARG002
        force: bool = False,  # noqa: ARG002
    ) -> tuple[JSONRenderer, str]:
        """Always JSON: no value of Accept is an error."""
        return JSONRenderer(), JSONRenderer.media_type

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]
        """Answer with the contract's error body."""
        if isinstance(exc, DrfMethodNotAllowed):
            exc = MethodNotAllowed(self.request.method or "", ", ".join(self.allowed_methods))
        return as_api_error(exc).response()

    def read(self, serializer: type[ClosedSerializer]) -> dict[str, Any]:
        """The validated body of the request."""
        request = self.request._request  # noqa: SLF001 - DRF's wrapper would parse the body
        check_media_type(request.headers.get("Content-Type", ""))
        body = bytearray()
        for piece in pieces(request):
            body += piece
            check_size(len(body))
        return validate(serializer, parse_object(bytes(body)))


def pieces(request: HttpRequest) -> Iterator[bytes]:
    """A request's body, read past Django's DATA_UPLOAD_MAX_MEMORY_SIZE.

    Django takes a WSGI body without Content-Length for empty; a server that says so ends it itself.
    """
    environ = getattr(request, "environ", {})
    chunked = environ.get("wsgi.input_terminated") and not environ.get("CONTENT_LENGTH")
    source = environ["wsgi.input"] if chunked else request
    while piece := source.read(PIECE_BYTES):
        yield piece


async def async_pieces(request: HttpRequest) -> AsyncIterator[bytes]:
    """The same for asynchronous callers; Django has the body on hand before it calls a view."""
    for piece in pieces(request):
        yield piece
