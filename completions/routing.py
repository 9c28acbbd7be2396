"""The paths that Channels takes over from the URLconf."""

from channels.routing import URLRouter
from django.urls import path, re_path

from completions.consumers import CompletionConsumer


def completions_router(application: object, prefix: str = "") -> URLRouter:
    """Route `/v1/completions` below `prefix` to the consumer and everything else onwards."""
    return URLRouter(
        [
            path(f"{prefix}v1/completions", CompletionConsumer.as_asgi()),
            re_path("", application),  # type: ignore[call-overload]
        ]
    )
