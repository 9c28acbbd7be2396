import pytest
from django.core.exceptions import ImproperlyConfigured

from completions.conf import SETTINGS, check_keys
from completions.conf import settings as app_settings

from .fakes import FakeEngine


def test_default_where_nothing_is_set(settings):
    settings.COMPLETIONS = {}
    assert app_settings.MAX_CANDIDATES == 1024


def test_change_of_the_setting_is_seen(settings):
    settings.COMPLETIONS = {"MAX_CANDIDATES": 2}
    assert app_settings.MAX_CANDIDATES == 2
    settings.COMPLETIONS = {"MAX_CANDIDATES": 3}
    assert app_settings.MAX_CANDIDATES == 3


def test_models_dir_is_below_the_site(settings, tmp_path):
    settings.COMPLETIONS = {}
    settings.BASE_DIR = tmp_path
    assert tmp_path / "var" / "models" == app_settings.MODELS_DIR


def test_path_as_text(settings, tmp_path):
    settings.COMPLETIONS = {"MODELS_DIR": str(tmp_path)}
    assert tmp_path == app_settings.MODELS_DIR


def test_import_string(settings):
    settings.COMPLETIONS = {"ENGINE": "tests.completions.fakes.FakeEngine"}
    assert app_settings.ENGINE is FakeEngine


@pytest.mark.parametrize(
    ("given", "near"), [("MAX_CANDIDATE", "MAX_CANDIDATES"), ("PROVIDERS", "PROVIDER")]
)
def test_unknown_key_names_its_neighbour(settings, given, near):
    settings.COMPLETIONS = {given: 1}
    with pytest.raises(ImproperlyConfigured, match=f"{given}.*Did you mean {near}\\?"):
        _ = app_settings.PROVIDER


def test_unlike_key_has_no_hint():
    with pytest.raises(ImproperlyConfigured) as caught:
        check_keys({"ZZZ": 1})
    assert "Did you mean" not in str(caught.value)


def test_value_that_is_no_choice(settings):
    settings.COMPLETIONS = {"UNKNOWN_FIELDS": "drop"}
    with pytest.raises(ImproperlyConfigured, match="'refuse', 'ignore'"):
        _ = app_settings.UNKNOWN_FIELDS


def test_unknown_attribute():
    with pytest.raises(AttributeError):
        _ = app_settings.NO_SUCH_KEY


def test_every_setting_is_described():
    assert all(setting.description.endswith(".") for setting in SETTINGS.values())
