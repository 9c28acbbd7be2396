"""The ASGI application of a site with completions."""

from channels.routing import ProtocolTypeRouter

from completions.lifespan import lifespan
from completions.routing import completions_router


def completions_application(application: object, prefix: str = "") -> ProtocolTypeRouter:
    """Put the consumer and the engine's lifespan before a site's ASGI application.

    `prefix` is where the site's URLconf includes `completions.urls`, for example "llm/".
    """
    return ProtocolTypeRouter(
        {"http": completions_router(application, prefix), "lifespan": lifespan}
    )
