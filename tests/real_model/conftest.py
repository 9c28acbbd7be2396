"""The default model, as the site's own code uses it, and its twin in fp32."""

import pytest
from django.core.management import call_command

from completions import engines
from completions.conf import settings as app_settings
from completions.management.commands.prepare_model import DEFAULT_NAME
from tests.live import SERVERS, Live

FP32_NAME = f"{DEFAULT_NAME}-fp32"


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


@pytest.fixture(scope="session")
def fp32_model():
    """The default model without quantization, prepared once and kept beside it."""
    call_command("prepare_model", name=FP32_NAME, precision="fp32")
    return FP32_NAME


@pytest.fixture(scope="module", params=SERVERS)
def live(request, tmp_path_factory, default_model):
    """The default model under a real server."""
    yield from serve(request.param, default_model, tmp_path_factory.mktemp("live"))


def serve(name, model, folder):
    """A prepared model under one of SERVERS, until the generator is closed."""
    server = Live(name, folder, "tests.real_model.live_settings", model, LIVE_MODEL=model)
    server.start()
    yield server
    if server.process.poll() is None:
        server.stop()
