"""Whether the service lives and answers, and its metrics."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from drf_spectacular.utils import OpenApiResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from completions.engines import get_engine
from completions.exceptions import ServiceUnavailable
from completions.metrics import REGISTRY
from completions.openapi import STRING, an_object, answers, describe
from completions.views.base import ContractView

HEALTH = an_object(object=STRING, message=STRING, status=STRING)


class LiveView(ContractView):
    """GET /v1/health/live."""

    @describe(operation_id="live", responses=answers("It lives.", HEALTH))
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Say that HTTP is answered."""
        return _health("live")


class ReadyView(ContractView):
    """GET /v1/health/ready."""

    @describe(operation_id="ready", responses=answers("It is ready.", HEALTH, 503))
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Say whether the model answers; the first question makes it load."""
        state = get_engine().state
        if state != "ready":
            raise ServiceUnavailable(f"The model is not ready: {state}.", 1)
        return _health("ready")


class MetricsView(ContractView):
    """GET /v1/metrics."""

    @describe(
        operation_id="metrics",
        responses={(200, "text/plain"): OpenApiResponse(STRING, "Prometheus text.")},
    )
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Give all metrics in Prometheus' text format."""
        return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)


def _health(status: str) -> JsonResponse:
    return JsonResponse(
        {"object": "health.response", "message": f"Service is {status}.", "status": status}
    )
