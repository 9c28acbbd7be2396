"""The site as an ASGI application."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
site = get_asgi_application()

from completions.asgi import completions_application  # noqa: E402 - the apps must be loaded

application = completions_application(site)
