"""The example site under real servers, on a fake engine: what only a socket can show."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import closing

import httpx
import pytest

from tests.live import SERVERS, Live

EVERY = pytest.mark.parametrize("live", SERVERS, indirect=True, scope="module")
ASGI = pytest.mark.parametrize(
    "live", ["daphne", "uvicorn", "urlconf"], indirect=True, scope="module"
)

SETTINGS = "tests.completions.live_settings"
PROMPT = {"model": "fake", "prompt": "hi"}


@pytest.fixture(scope="module")
def live(request, tmp_path_factory):
    server = Live(request.param, tmp_path_factory.mktemp(request.param), SETTINGS, "fake")
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
    server = Live("daphne", tmp_path, SETTINGS, "fake")
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
