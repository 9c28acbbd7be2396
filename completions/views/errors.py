"""Handlers for a site's `handler400`, `handler404` and so on: the contract's error body."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from completions.exceptions import BadRequest, InternalError, NotFound


def bad_request(request: HttpRequest, exception: Exception, **_: Any) -> HttpResponse:  # noqa: ARG001
    """Answer what Django itself refused."""
    return BadRequest("The request was refused for its headers or its size.").response()


def not_found(request: HttpRequest, exception: Exception, **_: Any) -> HttpResponse:  # noqa: ARG001
    """Answer an unknown path."""
    return NotFound(f"There is nothing at {request.path}.").response()


def server_error(request: HttpRequest, **_: Any) -> HttpResponse:  # noqa: ARG001
    """Answer a fault."""
    return InternalError().response()
