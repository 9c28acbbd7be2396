"""The command around engine.prepare, which is replaced here."""

import pytest
from django.core.management import CommandError, call_command

from completions.management.commands.prepare_model import INTERRUPTED, Command
from engine.errors import UnsupportedModel


@pytest.fixture
def models_dir(tmp_path, settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MODEL": None, "MODELS_DIR": tmp_path}
    return tmp_path


@pytest.fixture
def prepare(models_dir, monkeypatch):
    """Calls of prepare_model, which ends as its attribute `error` says."""

    class Prepare:
        def __init__(self):
            self.calls, self.error = [], None

        def __call__(self, source, name, folder, precision, progress):
            self.calls.append((source, name, folder, precision))
            with progress("export"):
                if self.error:
                    raise self.error

    fake = Prepare()
    monkeypatch.setattr("engine.prepare.prepare_model", fake)
    return fake


def test_arguments(prepare, models_dir):
    call_command("prepare_model", "someone/model", "--name", "mine", "--precision", "fp32")
    assert prepare.calls == [("someone/model", "mine", models_dir, "fp32")]
    assert not (models_dir / "default").exists()


def test_default_is_set(prepare, models_dir):
    call_command("prepare_model", "someone/model", "--name", "mine", "--default")
    assert (models_dir / "default").read_text() == "mine\n"


def test_refusal(prepare, models_dir):
    prepare.error = UnsupportedModel("bloom uses ALiBi")
    with pytest.raises(CommandError, match="bloom uses ALiBi"):
        call_command("prepare_model", "someone/model", "--default")
    assert not (models_dir / "default").exists()


def test_interrupted(prepare):
    prepare.error = KeyboardInterrupt()
    with pytest.raises(CommandError, match="goes on") as caught:
        call_command("prepare_model", "someone/model")
    assert caught.value.returncode == INTERRUPTED


def test_name_of_the_default_file(prepare):
    with pytest.raises(CommandError, match="default"):
        call_command("prepare_model", "someone/model", "--name", "default")
    assert not prepare.calls


def test_no_warning_that_there_is_no_model(prepare, capfd):
    Command().run_from_argv(["manage.py", "prepare_model", "someone/model", "--name", "mine"])
    assert prepare.calls
    assert "W001" not in "".join(capfd.readouterr())
