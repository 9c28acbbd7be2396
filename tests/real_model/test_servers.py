"""The default model under real servers, asked as its users ask."""

import json
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest

ASGI = pytest.mark.parametrize("live", ["daphne", "uvicorn"], indirect=True, scope="module")
DAPHNE = pytest.mark.parametrize("live", ["daphne"], indirect=True, scope="module")
NEAR_TIE = 0.05
WORDS = ["lighthouse", "harbour", "winter", "bread", "engine", "garden", "letter", "river"]
GREEDY = {"temperature": 0, "max_tokens": 8}


@pytest.fixture(scope="module")
def client(live):
    return openai.OpenAI(base_url=f"{live.url}/v1", api_key="unused", max_retries=0)


def text_of(answer):
    return answer.json()["choices"][0]["text"]


README = Path("README.md").read_text()


def test_the_readme_shows_the_real_answer(live):
    command, shown = re.search(r"```console\n\$ (curl .*?}')\n(.*?)```", README, re.DOTALL).groups()
    command = command.replace("http://127.0.0.1:8000", live.url)
    real = json.loads(subprocess.check_output(command, shell=True))
    shown = json.loads(shown)
    for answer in (real, shown):  # what differs from one answer to the next
        answer["usage"].pop("prompt_tokens_details")
        assert answer.pop("id").startswith("cmpl-")
        assert answer.pop("created")
    assert real == shown


def test_the_readme_shows_what_its_python_prints(live, capsys):
    program, shown = re.search(
        r"```python\n(from openai .*?)```\n\nprints `(.*?)`", README, re.DOTALL
    ).groups()
    exec(program.replace("http://127.0.0.1:8000", live.url), {})
    assert capsys.readouterr().out == shown


def test_openai_client_completes_and_streams_the_same(live, client):
    fields = {"model": live.model, "prompt": "Once upon a time", "max_tokens": 24, "seed": 7}
    whole = client.completions.create(**fields)
    chunks = list(client.completions.create(**fields, stream=True))
    assert len(chunks) > 2
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert whole.usage.completion_tokens <= 24


@DAPHNE
def test_many_at_once_equal_each_alone(live):
    """32 requests, greedy and seeded in turn, all at once and one after another."""
    bodies = [
        {
            "prompt": f"A short story about the {WORDS[i % 8]} number {i}:",
            "max_tokens": 8 + i % 5,
            "temperature": i % 2,
            "seed": i,
            "logprobs": 2,
        }
        for i in range(32)
    ]
    with ThreadPoolExecutor(32) as pool:
        together = list(pool.map(lambda body: live.ask(**body), bodies))
    for body, answer in zip(bodies, together, strict=True):
        alone = live.ask(**body)
        if text_of(alone) != text_of(answer):
            assert parting_gap(alone.json(), answer.json()) < NEAR_TIE, body


def parting_gap(left, right):
    """The lead of the best token where two answers part."""
    left, right = (answer["choices"][0]["logprobs"] for answer in (left, right))
    at = next(
        i for i, (a, b) in enumerate(zip(left["tokens"], right["tokens"], strict=False)) if a != b
    )
    best, second, *_ = sorted(left["top_logprobs"][at].values(), reverse=True)
    return best - second


@ASGI
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(live, stream):
    body = {"model": live.model, "prompt": "Tell me", "max_tokens": 4000, "ignore_eos": True}
    leave = threading.Event()

    def ask():
        with httpx.Client(timeout=30 if stream else 2) as http:
            try:
                with http.stream(
                    "POST", f"{live.url}/v1/completions", json={**body, "stream": stream}
                ) as response:
                    pieces = response.iter_raw()  # forgotten, it would hang up by itself
                    next(pieces)
                    leave.wait(30)
            except httpx.ReadTimeout:
                leave.wait(30)

    thread = threading.Thread(target=ask)
    thread.start()
    live.wait_until(lambda: live.running() == 1, 30)
    leave.set()
    thread.join()
    before = generated(live)
    live.wait_until(lambda: live.running() == 0, 5)
    assert generated(live) - before < 40  # and not the 4,000 that were asked for


def generated(live):
    text = httpx.get(f"{live.url}/v1/metrics").text
    return float(re.search(r"^generation_tokens_total\{.*\} (\S+)", text, re.MULTILINE)[1])


@DAPHNE
def test_the_request_is_in_the_admin(live):
    """Through the login form, as an operator sees it."""
    live.run("manage.py", "shell", "-c", SUPERUSER)
    answer = live.ask(prompt="Find me in the admin:", **GREEDY)
    with httpx.Client(base_url=live.url, follow_redirects=True) as browser:
        browser.get("/admin/login/")
        form = {"username": "admin", "password": "secret", "next": "/admin/"}
        form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
        browser.post("/admin/login/", data=form)
        link = None
        for _ in range(50):
            page = browser.get("/admin/completions/requestlog/").text
            if link := re.search(r'href="(/admin/completions/requestlog/\d+/change/[^"]*)"', page):
                break
            time.sleep(0.1)
        page = browser.get(link[1]).text
    usage = answer.json()["usage"]
    assert "Find me in the admin:" in page
    assert text_of(answer).strip().split("\n")[0][:12] in page
    for count in (usage["prompt_tokens"], usage["completion_tokens"]):
        assert re.search(rf"\b{count}\b", page)
    assert re.search("first token", page, re.IGNORECASE)
    assert re.search("duration", page, re.IGNORECASE)


SUPERUSER = (
    "from django.contrib.auth.models import User; "
    "User.objects.filter(username='admin').exists() "
    "or User.objects.create_superuser('admin', password='secret')"
)


def test_a_serving_process_has_no_torch(live):
    live.ask(prompt="hi", max_tokens=1, guided_regex="[a-z]")
    mapped = [Path(f"/proc/{live.process.pid}/maps").read_text()]
    children = Path(f"/proc/{live.process.pid}/task/{live.process.pid}/children").read_text()
    mapped += [Path(f"/proc/{pid}/maps").read_text() for pid in children.split()]
    assert any("onnxruntime" in maps for maps in mapped)
    assert not any("libtorch" in maps for maps in mapped)
