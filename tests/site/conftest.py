"""New sites, made by `django-admin startproject`, that mount the built wheel."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from completions.management.commands.prepare_model import DEFAULT_NAME
from tests.live import Live

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "var" / "models"
PARTS = ["completions", "engine", "pyproject.toml", "requirements.txt", "requirements-dev.txt"]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The packages as `pip install .` builds them; from a copy, since builds leave files behind."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in [*PARTS, "README.md"]:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    _pip("wheel", "--no-deps", "--wheel-dir", built, source)
    (path,) = built.iterdir()
    return path


@pytest.fixture(scope="session")
def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="session")
def packages(wheel, tmp_path_factory):
    """A folder with the installed wheel; what it needs comes from the tests' own environment."""
    folder = tmp_path_factory.mktemp("packages")
    _pip("install", "--no-deps", "--target", folder, wheel)
    return folder


@pytest.fixture
def site(packages, tmp_path):
    if not (MODELS / DEFAULT_NAME).is_dir():
        pytest.skip("no default model is prepared (make setup)")
    made = Site(tmp_path / "host", packages)
    yield made
    made.stop()


class Site:
    """A project `host`: pieces of code are added to its files, then it is served."""

    def __init__(self, folder, packages):
        folder.mkdir()
        self.folder = folder
        self.environment = {"PYTHONPATH": str(packages), "DJANGO_SETTINGS_MODULE": "host.settings"}
        self.live = None
        self._run("-m", "django", "startproject", "host", ".")
        self.add("settings", f"COMPLETIONS = {{'MODELS_DIR': {str(MODELS)!r}}}")

    def add(self, module, code):
        """Add code to the end of one of the project's modules."""
        with (self.folder / "host" / f"{module}.py").open("a") as file:
            file.write(f"\n{code}\n")

    def mount(self, prefix=""):
        self.add("settings", "INSTALLED_APPS += ['completions']")
        self.add("urls", "from django.urls import include")
        self.add("urls", f"urlpatterns += [path({prefix!r}, include('completions.urls'))]")

    def manage(self, *arguments):
        return self._run("manage.py", *arguments)

    def log(self):
        """Status and prompt of each logged request, asked inside the site."""
        return json.loads(
            self.manage(
                "shell",
                "--no-imports",
                "-c",
                "import json; from completions.models import RequestLog;"
                "rows = RequestLog.objects.order_by('id').values_list('status_code', 'prompt');"
                "print(json.dumps(list(rows)))",
            )
        )

    def serve(self, server, prefix=""):
        """Migrate and start a server; it is stopped after the test."""
        self.live = Live(
            server,
            self.folder,
            model=DEFAULT_NAME,
            cwd=self.folder,
            site="host",
            settings=self.environment["DJANGO_SETTINGS_MODULE"],
            PYTHONPATH=self.environment["PYTHONPATH"],
        )
        self.live.url += f"/{prefix}".rstrip("/")
        self.live.start()
        return self.live

    def stop(self):
        if self.live and self.live.process.poll() is None:
            return self.live.stop()
        return None

    def _run(self, *arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def _pip(*arguments):
    command = [sys.executable, "-m", "pip", "--quiet", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=300)
