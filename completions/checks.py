"""System checks for set-ups that would fail later or surprise."""

import os
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, register
from django.core.exceptions import ImproperlyConfigured

from completions.conf import SETTINGS, check_keys, settings, user_settings
from completions.engines import configured_model

WORKER_VARIABLE = "WEB_CONCURRENCY"
"""Variable from which gunicorn and uvicorn take the number of worker processes."""


@register("completions")
def check_settings(**_: Any) -> list[CheckMessage]:
    """Unknown keys and impossible values of COMPLETIONS."""
    try:
        check_keys(user_settings())
        for name, setting in SETTINGS.items():
            if not setting.is_import_string:  # the engine loads ONNX Runtime; migrate needs none
                getattr(settings, name)
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="completions.E001")]
    return []


@register("completions")
def check_model(**_: Any) -> list[CheckMessage]:
    """A model that isn't there."""
    if check_settings():
        return []
    name = configured_model()
    if name is None:
        message = f"No model is set up in {settings.MODELS_DIR}."
    elif not (settings.MODELS_DIR / name).is_dir():
        message = f"The model {name!r} is not in {settings.MODELS_DIR}."
    else:
        return []
    return [checks.Warning(message, hint="Run manage.py prepare_model.", id="completions.W001")]


@register("completions")
def check_workers(**_: Any) -> list[CheckMessage]:
    """Several worker processes, each of which would load the model."""
    workers = os.environ.get(WORKER_VARIABLE, "1")
    if not workers.isdecimal() or int(workers) <= 1:
        return []
    message = f"{WORKER_VARIABLE} is {workers}: every worker loads the model into its own memory."
    return [checks.Warning(message, hint="Use one worker with threads.", id="completions.W002")]
