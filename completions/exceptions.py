"""Everything that can be answered instead of a completion, and its one JSON body (section 8)."""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.exceptions import SuspiciousOperation
from django.http import HttpResponse, JsonResponse

from completions.conf import settings
from engine.errors import EngineUnavailable, InvalidRequest

logger = logging.getLogger(__name__)


class ApiError(Exception):
    """An answer with an error status; `param` is the dotted path of the field at fault."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "InternalServerError"

    def __init__(
        self,
        message: str,
        param: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = headers or {}

    @property
    def body(self) -> dict[str, Any]:
        """The error twice: flat for older NIM and vLLM clients, nested for OpenAI's."""
        error = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.status,
        }
        return {"object": "error", **error, "error": error}

    def response(self) -> HttpResponse:
        """The error as an HTTP response."""
        return JsonResponse(self.body, status=self.status, headers=dict(self.headers))


class BadRequest(ApiError):
    """The body can't be read, or its fields contradict each other or the model."""

    status = 400
    type = "BadRequestError"


class NotFound(ApiError):
    """No such path or model."""

    status = 404
    type = "NotFoundError"


class MethodNotAllowed(ApiError):
    """The path exists, but not for this method."""

    status = 405
    type = "MethodNotAllowedError"

    def __init__(self, method: str, allowed: str) -> None:
        message = f"Method {method} is not allowed here; use {allowed}."
        super().__init__(message, headers={"Allow": allowed})


class BodyTooLarge(ApiError):
    """The body has more than MAX_BODY_BYTES."""

    status = 413
    type = "RequestEntityTooLargeError"


class UnsupportedMediaType(ApiError):
    """The body isn't labelled as JSON."""

    status = 415
    type = "UnsupportedMediaTypeError"

    def __init__(self, content_type: str) -> None:
        given = f"not {content_type!r}" if content_type else "which is missing"
        super().__init__(f"The Content-Type must be application/json, {given}.")


class Unprocessable(ApiError):
    """Fields that break the schema; `detail` lists every problem."""

    status = 422
    type = "UnprocessableEntityError"

    def __init__(self, detail: list[dict[str, Any]]) -> None:
        paths = [".".join(map(str, problem["loc"][1:])) for problem in detail]
        shown = [f"{path}: {problem['msg']}" for path, problem in zip(paths, detail, strict=True)]
        super().__init__(" ".join(shown), paths[0])
        self.detail = detail

    @property
    def body(self) -> dict[str, Any]:
        """The error and its details."""
        return {**super().body, "detail": self.detail}


class ServiceUnavailable(ApiError):
    """Loading, draining, or no room in the queue."""

    status = 503
    type = "ServiceUnavailableError"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, headers={"Retry-After": str(retry_after)})


class InternalError(ApiError):
    """A fault of ours; the cause is in the server's log only."""

    def __init__(self, request_id: str = "") -> None:
        reference = f" Its id is {request_id}." if request_id else ""
        super().__init__(f"The server failed to answer this request.{reference}")


def invalid_schema(detail: list[dict[str, Any]]) -> ApiError:
    """The answer to schema errors, under the status that VALIDATION_STATUS chooses."""
    error = Unprocessable(detail)
    if BadRequest.status == settings.VALIDATION_STATUS:
        return BadRequest(error.message, error.param)
    return error


def as_api_error(error: Exception, request_id: str = "") -> ApiError:
    """The answer to an exception; one that was not foreseen is logged with its traceback."""
    match error:
        case ApiError():
            answer: ApiError = error
        case InvalidRequest():
            answer = BadRequest(error.message, error.param)
        case EngineUnavailable():
            answer = ServiceUnavailable(str(error), error.retry_after)
        case RecursionError():
            answer = BadRequest("The body is nested too deeply.")
        case SuspiciousOperation():
            answer = BadRequest("The request was refused for its headers or its size.")
        case _:
            logger.error("request %s failed", request_id, exc_info=error)
            answer = InternalError(request_id)
    return answer
