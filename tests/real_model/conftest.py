"""The default model, as the site's own code uses it."""

import pytest

from completions import engines
from completions.conf import settings as app_settings


@pytest.fixture(scope="module")
def default_model():
    """Serve what `make setup` prepared; the engine is shared by a module's tests."""
    if engines.configured_model() is None:
        pytest.skip("no default model is prepared (make setup)")
    yield engines.configured_model()
    engines.registry.close()


@pytest.fixture(autouse=True)
def without_log(settings, default_model):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "LOG_REQUESTS": False}
    yield
    app_settings.reload()
