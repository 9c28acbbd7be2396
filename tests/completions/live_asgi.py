"""The example site without Channels: the URLconf alone."""

from django.core.asgi import get_asgi_application

application = get_asgi_application()
