"""The black-box conformance suite, where it lies beside the checkout, against `manage.py serve`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MINUTES = 25
FOLDER = Path(__file__).resolve().parents[3] / "shared"


@pytest.mark.skipif(
    not (FOLDER / "conformance").is_dir(), reason="the conformance suite is not beside the checkout"
)
@pytest.mark.parametrize("live", ["daphne"], indirect=True, scope="module")
def test_conformance(live):
    suite = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "conformance", "-q", "--maxfail=20", "--tb=short"),
            *("-p", "no:cacheprovider", "--base-url", live.url, "--model", live.model),
        ],
        cwd=FOLDER,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "DJANGO_SETTINGS_MODULE": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60 * MINUTES,
    )
    assert suite.returncode == 0, suite.stdout[-20000:]
