"""The ASGI application of a site with completions."""

from channels.routing import ProtocolTypeRouter
from django.urls import get_script_prefix, reverse

from completions.lifespan import lifespan
from completions.routing import completions_router


def completions_application(application: object, prefix: str | None = None) -> ProtocolTypeRouter:
    """Put the consumer and the engine's lifespan before a site's ASGI application.

    `prefix` is where the site serves `v1/completions`, for example "llm/"; without one it is taken
    from the URLconf, which then has to include `completions.urls` (else NoReverseMatch).
    """
    if prefix is None:
        path = reverse("completions:completions").removeprefix(get_script_prefix())
        prefix = path.removesuffix("v1/completions")
    return ProtocolTypeRouter(
        {"http": completions_router(application, prefix), "lifespan": lifespan}
    )
