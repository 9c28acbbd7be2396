"""The example site under real servers, on a fake engine: what only a socket can show."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import httpx
import pytest

SERVERS = {
    "daphne": ["manage.py", "serve", "--port", "{port}"],
    "uvicorn": ["-m", "uvicorn", "project.asgi:application", "--port", "{port}"],
    "urlconf": ["-m", "uvicorn", "tests.completions.live_asgi:application", "--port", "{port}"],
    "gunicorn": ["-m", "gunicorn", "project.wsgi", "--bind", "127.0.0.1:{port}", "--threads", "8"],
}
EVERY = pytest.mark.parametrize("live", SERVERS, indirect=True, scope="module")
ASGI = pytest.mark.parametrize(
    "live", ["daphne", "uvicorn", "urlconf"], indirect=True, scope="module"
)

PROMPT = {"model": "fake", "prompt": "hi"}


class Live:
    def __init__(self, name, folder):
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.name = name
        self.database = folder / "live.sqlite3"
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.completions.live_settings",
            "LIVE_DIR": str(folder),
        }
        self.process = None

    def start(self):
        self.run("manage.py", "migrate", "--verbosity", "0")
        arguments = [argument.format(port=self.port) for argument in SERVERS[self.name]]
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.wait_until(self.is_ready)

    def run(self, *arguments):
        subprocess.run([sys.executable, *arguments], env=self.environment, check=True, timeout=60)

    def is_ready(self):
        try:
            return httpx.get(f"{self.url}/v1/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    def wait_until(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.stdout.read()
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=30)
        return self.process.returncode, output

    def running(self):
        for line in httpx.get(f"{self.url}/metrics").text.splitlines():
            if line.startswith("num_requests_running{"):
                return float(line.split()[-1])
        return None

    def ask(self, **fields):
        return httpx.post(f"{self.url}/v1/completions", json={**PROMPT, **fields}, timeout=30)

    def rows(self):
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(
                "SELECT status_code, prompt FROM completions_requestlog ORDER BY id"
            ).fetchall()


@pytest.fixture(scope="module")
def live(request, tmp_path_factory):
    server = Live(request.param, tmp_path_factory.mktemp(request.param))
    server.start()
    yield server
    if server.process.poll() is None:
        server.stop()


@EVERY
def test_completion_and_stream_are_equal(live):
    plain = live.ask(max_tokens=8)
    assert plain.status_code == 200
    stream = live.ask(max_tokens=8, stream=True)
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    *events, done, rest = stream.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    assert text == plain.json()["choices"][0]["text"] == "abcabcab"


@EVERY
def test_tokens_are_sent_as_they_come(live):
    arrivals = []
    with httpx.stream(
        "POST", f"{live.url}/v1/completions", json={**PROMPT, "max_tokens": 20, "stream": True}
    ) as response:
        arrivals = [piece for piece in response.iter_raw() if piece]
    assert len(arrivals) > 3


@EVERY
@pytest.mark.parametrize("stream", [False, True])
def test_refusals_are_json(live, stream):
    assert live.ask(n=0, stream=stream).json()["code"] == 422
    assert live.ask(max_tokens=1000, stream=stream).json()["code"] == 400
    missing = httpx.get(f"{live.url}/nope", headers={"accept": "text/html"})
    assert missing.json()["code"] == 404


@EVERY
def test_body_in_chunks(live):
    content = json.dumps({**PROMPT, "max_tokens": 2}).encode()
    pieces = (content[at : at + 7] for at in range(0, len(content), 7))
    headers = {"content-type": "application/json"}
    response = httpx.post(f"{live.url}/v1/completions", content=pieces, headers=headers)
    assert response.status_code == 200


@EVERY
@pytest.mark.parametrize("chunked", [False, True])
def test_body_over_the_limit(live, chunked):
    content = b" " * (17 << 20)
    pieces = (content[at : at + 65536] for at in range(0, len(content), 65536))
    headers = {"content-type": "application/json"}
    response = httpx.post(
        f"{live.url}/v1/completions",
        content=pieces if chunked else content,
        headers=headers,
        timeout=30,
    )
    assert response.json()["code"] == 413


@EVERY
def test_client_that_leaves_a_stream_frees_its_slot(live):
    body = {**PROMPT, "max_tokens": 250, "stream": True}
    with httpx.stream("POST", f"{live.url}/v1/completions", json=body) as response:
        next(response.iter_raw())
    live.wait_until(lambda: live.running() == 0, 5)


@ASGI
def test_client_that_leaves_an_unstreamed_request_frees_its_slot(live):
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{live.url}/v1/completions", json={**PROMPT, "max_tokens": 250}, timeout=0.2)
    live.wait_until(lambda: live.running() == 0, 1.5)


@EVERY
def test_admin_has_its_styles(live):
    page = httpx.get(f"{live.url}/admin/login/").text
    link = page.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    assert httpx.get(f"{live.url}{link}").status_code == 200


@EVERY
def test_every_request_is_in_the_log(live):
    live.ask(prompt="remember me")
    live.ask(n=0)
    live.wait_until(lambda: live.rows()[-2:] == [(200, "remember me"), (422, "")], 10)


@pytest.mark.parametrize("live", ["daphne"], indirect=True, scope="module")
def test_end_lets_running_requests_end_and_takes_no_more(live):
    """The last test with this server: it stops it."""
    body = {**PROMPT, "prompt": "last", "max_tokens": 100, "stream": True}
    with httpx.stream("POST", f"{live.url}/v1/completions", json=body, timeout=30) as response:
        pieces = response.iter_raw()
        next(pieces)
        live.process.send_signal(signal.SIGTERM)
        live.wait_until(lambda: live.ask().status_code == 503, 5)
        text = b"".join(pieces)
    assert text.endswith(b"data: [DONE]\n\n")
    output, _ = live.process.communicate(timeout=30)
    assert live.process.returncode == 0, output
    assert (200, "last") in live.rows()
    assert (503, "hi") in live.rows()


def test_port_in_use(tmp_path):
    server = Live("daphne", tmp_path)
    server.run("manage.py", "migrate", "--verbosity", "0")
    with closing(socket.create_server(("127.0.0.1", server.port))):
        arguments = [argument.format(port=server.port) for argument in SERVERS["daphne"]]
        ended = subprocess.run(
            [sys.executable, *arguments],
            env=server.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert "Can't listen" in ended.stderr
