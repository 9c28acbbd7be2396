"""The built wheel in other people's sites, under real servers, with the default model."""

import json
import re

import httpx
import pytest

from .conftest import ROOT

SERVERS = pytest.mark.parametrize("server", ["daphne", "uvicorn", "gunicorn"])
PARIS = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
TEXT = " Paris.\n\n"
CHANNELS = """
from completions.asgi import completions_application
application = completions_application(application)
"""


def ask(live, **headers):
    """The text of a whole answer and of a streamed one, and in how many pieces that one came."""
    url = f"{live.url}/v1/completions"
    body = {"model": live.model, **PARIS}
    whole = httpx.post(url, json=body, headers=headers, timeout=60).json()["choices"][0]["text"]
    with httpx.stream("POST", url, json={**body, "stream": True}, headers=headers) as response:
        pieces = list(response.iter_text())
    *events, done = "".join(pieces).strip().split("\n\n")
    assert done == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    return whole, "".join(chunk["choices"][0]["text"] for chunk in chunks), len(pieces) > 2


EQUAL_AND_IN_PIECES = (TEXT, TEXT, True)


def readme_steps():
    """Pieces of code by the module they belong to, and the commands that follow."""
    section = (ROOT / "README.md").read_text().partition("## In your own site")[2]
    pieces = re.findall(r"```python\n# mysite/(\w+)\.py\n(.*?)```", section, re.DOTALL)
    return pieces, re.findall(r"^python manage\.py (.*)$", section, re.MULTILINE)


@SERVERS
def test_the_readme_followed_literally(site, server):
    pieces, commands = readme_steps()
    assert [module for module, _ in pieces] == ["settings", "urls"]
    assert [command.split()[0] for command in commands] == ["migrate", "prepare_model", "serve"]
    for module, code in pieces:
        site.add(module, code)
    for command in commands[:2]:
        site.manage(*command.split())
    live = site.serve(server)
    assert ask(live) == EQUAL_AND_IN_PIECES
    assert httpx.get(f"{live.url}/admin/login/").status_code == 200
    assert site.log() == [[200, PARIS["prompt"]]] * 2


@pytest.mark.parametrize("server", ["daphne", "gunicorn"])
def test_postgresql(site, server, postgres):
    site.mount()
    site.add(
        "settings",
        f"""DATABASES = {{"default": {{
            "ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1",
            "PORT": {postgres.port}, "NAME": "postgres", "USER": "tests",
        }}}}""",
    )
    site.manage("migrate")
    site.manage("migrate", "completions", "zero")
    assert ask(site.serve(server)) == EQUAL_AND_IN_PIECES
    assert site.log() == [[200, PARIS["prompt"]]] * 2
    site.stop()
    site.manage("migrate", "completions", "zero")


def test_migrations_back_and_forth_on_sqlite(site):
    site.mount()
    site.manage("migrate")
    site.manage("migrate", "completions", "zero")
    site.manage("migrate")
    site.manage("makemigrations", "--check", "--dry-run")
    assert site.log() == []


@pytest.mark.parametrize("with_channels", [False, True])
def test_below_a_prefix(site, with_channels):
    site.mount("llm/")
    site.add("settings", "CHANNEL_LAYERS = {'default': {'BACKEND': 'host.NoSuchLayer'}}")
    if with_channels:
        site.add("asgi", CHANNELS)
    live = site.serve("uvicorn", prefix="llm/")
    assert ask(live) == EQUAL_AND_IN_PIECES
    assert httpx.get(f"{live.url}/v1/models").json()["data"][0]["id"] == live.model
    assert httpx.get(f"{live.url.removesuffix('/llm')}/v1/models").status_code == 404


MIDDLEWARE = """
class SyncOnly:
    async_capable = False

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        response = self.get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'"
        response["Access-Control-Allow-Origin"] = "*"
        return response
"""


@pytest.mark.parametrize(
    ("server", "with_channels"), [("uvicorn", False), ("uvicorn", True), ("gunicorn", False)]
)
def test_middleware_of_the_host(site, server, with_channels):
    """Compression, a log-in for everything else, a synchronous one that sets CORS and CSP."""
    site.mount()
    (site.folder / "host" / "middleware.py").write_text(MIDDLEWARE)
    site.add(
        "settings",
        "MIDDLEWARE = ['django.middleware.gzip.GZipMiddleware', *MIDDLEWARE,"
        "'django.contrib.auth.middleware.LoginRequiredMiddleware', 'host.middleware.SyncOnly']",
    )
    if with_channels:
        site.add("asgi", CHANNELS)
    live = site.serve(server)
    assert ask(live, **{"Accept-Encoding": "gzip"}) == EQUAL_AND_IN_PIECES
    models = httpx.get(f"{live.url}/v1/models")
    assert models.json()["data"][0]["id"] == live.model
    assert models.headers["content-security-policy"] == "default-src 'self'"


USERS = """
from django.contrib.auth.models import AbstractUser

class Member(AbstractUser):
    pass
"""


def test_custom_user_language_and_local_time(site):
    site.mount()
    site.manage("startapp", "members")
    (site.folder / "members" / "models.py").write_text(USERS)
    site.add("settings", "INSTALLED_APPS += ['members']; AUTH_USER_MODEL = 'members.Member'")
    site.add("settings", "USE_TZ = False; LANGUAGE_CODE = 'de'; TIME_ZONE = 'Europe/Berlin'")
    site.manage("makemigrations", "members")
    live = site.serve("daphne")
    assert ask(live) == EQUAL_AND_IN_PIECES
    assert site.log() == [[200, PARIS["prompt"]]] * 2
    login = httpx.get(f"{live.url}/admin/login/").text
    assert "Anmelden" in login
    style = re.search(r'rel="stylesheet" href="([^"]+)"', login)[1]
    assert httpx.get(f"{live.url}{style}").status_code == 200
    site.manage("check", "--fail-level", "WARNING")


ROUTER = """
class LogRouter:
    names = {'requestlog', 'loggedchoice'}

    def db_for_read(self, model, **hints):
        is_log = model._meta.app_label == 'completions' and model._meta.model_name in self.names
        return 'log' if is_log else None

    db_for_write = db_for_read

    def allow_relation(self, left, right, **hints):
        return True

    def allow_migrate(self, db, app_label, model_name=None, **hints):
        if app_label == 'completions' and model_name in self.names:
            return db == 'log'
        return db == 'default'
"""


def test_log_in_a_second_database(site):
    site.mount()
    (site.folder / "host" / "router.py").write_text(ROUTER)
    site.add("settings", "DATABASE_ROUTERS = ['host.router.LogRouter']")
    site.add("settings", "DATABASES['log'] = DATABASES['default'] | {'NAME': BASE_DIR / 'log.db'}")
    site.manage("migrate", "--database", "log")
    live = site.serve("daphne")
    assert ask(live) == EQUAL_AND_IN_PIECES
    assert site.log() == [[200, PARIS["prompt"]]] * 2


VIEWS = f"""
from django.http import JsonResponse, StreamingHttpResponse
from completions import acomplete, astream, complete

FIELDS = {PARIS!r}

def whole(request):
    return JsonResponse(complete(**FIELDS))

async def asynchronous(request):
    return JsonResponse(await acomplete(**FIELDS))

async def stream(request):
    async def texts():
        async for chunk in astream(**FIELDS):
            yield chunk["choices"][0]["text"]
    return StreamingHttpResponse(texts())
"""


def test_views_of_the_host(site):
    site.mount()
    (site.folder / "host" / "views.py").write_text(VIEWS)
    site.add("urls", "from host import views")
    for name in ("whole", "asynchronous", "stream"):
        site.add("urls", f"urlpatterns += [path({name!r}, views.{name})]")
    live = site.serve("uvicorn")
    for name in ("whole", "asynchronous"):
        assert httpx.get(f"{live.url}/{name}").json()["choices"][0]["text"] == TEXT
    assert httpx.get(f"{live.url}/stream").text == TEXT
    assert site.log() == [[200, PARIS["prompt"]]] * 3
