"""What `pip install .` brings."""

from pathlib import Path

from .conftest import ROOT


def test_every_file_of_the_packages(contents):
    """Templates, static files, migrations and type markers too."""
    for package in ("completions", "engine"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to(ROOT)) in contents


def test_nothing_else(contents):
    tops = {Path(name).parts[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"completions", "engine"}
