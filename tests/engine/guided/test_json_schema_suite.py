"""Every schema of the JSON-Schema-Test-Suite is followed exactly or refused."""

import json
import subprocess

import pytest

from tests.engine.guided import json_schema_suite as suite


@pytest.fixture(scope="module")
def found(compiler, vocabulary):
    try:
        suite.suite_folder()
    except subprocess.CalledProcessError:
        pytest.skip("the suite can't be fetched")
    return suite.verdicts(compiler, vocabulary)


def test_no_schema_accepts_an_invalid_instance(found):
    wrong = {case: v for case, v in found.items() if "invalid, but accepted" in str(v)}
    assert wrong == {}


def test_refusals_and_deviations_are_the_known_ones(found):
    assert found == json.loads(suite.BASELINE.read_text(encoding="utf-8"))


def test_the_documented_table_is_up_to_date(found):
    assert suite.table(found) in suite.DOCS.read_text(encoding="utf-8")
