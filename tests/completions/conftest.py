"""Every test of the app talks to a fake engine unless it says otherwise."""

import hypothesis
import pytest

from completions import engines
from completions.conf import settings as app_settings

from .fakes import FakeEngine

# The machines that run this are slow and busy at times.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _completions(settings, tmp_path):
    settings.COMPLETIONS = {
        "ENGINE": "tests.completions.fakes.FakeEngine",
        "MODEL": "fake",
        "ALIASES": ["alias"],
        "MODELS_DIR": tmp_path,
        "LOG_REQUESTS": False,
    }
    yield
    engines.registry.close()
    app_settings.reload()


@pytest.fixture
def engine() -> FakeEngine:
    return engines.get_engine()
