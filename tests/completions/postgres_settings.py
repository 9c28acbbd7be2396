"""The example site on the PostgreSQL that tests/services.py starts."""

import os

from project.settings import *  # noqa: F403

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": os.environ["POSTGRES_PORT"],
        "NAME": "postgres",
        "USER": "tests",
    }
}
