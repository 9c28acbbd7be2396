"""The URLconf under WSGI (client) and ASGI (async_client)."""

import io
import json
import re

import jsonschema
import pytest
from django.urls import reverse

from completions import openapi
from completions.serializers import CompletionSerializer, schema_of

from .http import BODY

JSON = "application/json"


def post(client, path, body, **options):
    data = body if isinstance(body, bytes) else json.dumps(body)
    return client.post(path, data, content_type=JSON, **options)


def check_error(response, status):
    assert response.status_code == status
    assert response.headers["content-type"] == JSON
    error = json.loads(response.content)
    assert error["code"] == error["error"]["code"] == status
    return error


# --- /v1/completions


def test_completion_under_wsgi(client, engine):
    response = post(client, "/v1/completions", BODY)
    assert response.status_code == 200
    assert response.json()["choices"][0]["text"] == "abc"


@pytest.mark.django_db  # closing a response looks after the connections
def test_stream_under_wsgi(client, engine):
    response = post(client, "/v1/completions", {**BODY, "stream": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["x-accel-buffering"] == "no"
    pieces = list(response.streaming_content)
    assert len(pieces) == 3
    assert pieces[-1].endswith(b"data: [DONE]\n\n")
    response.close()
    assert engine.aborted == []


@pytest.mark.django_db
def test_stream_that_is_left_under_wsgi(client, engine):
    response = post(client, "/v1/completions", {**BODY, "max_tokens": 100, "stream": True})
    next(iter(response.streaming_content))
    response.close()
    assert engine.aborted == [engine.requests[0].request_id]


async def test_completion_under_asgi(async_client):
    response = await post(async_client, "/v1/completions", BODY)
    assert response.json()["choices"][0]["text"] == "abc"


async def test_stream_under_asgi(async_client):
    response = await post(async_client, "/v1/completions", {**BODY, "stream": True})
    pieces = [piece async for piece in response.streaming_content]
    assert pieces[-1].endswith(b"data: [DONE]\n\n")


def test_body_larger_than_django_likes(client, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert post(client, "/v1/completions", BODY).status_code == 200


def test_body_over_the_limit(client, settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MAX_BODY_BYTES": 20}
    check_error(post(client, "/v1/completions", BODY), 413)


def test_chunked_body_under_wsgi(client):
    """A WSGI server has no length for it, but says that it ends the body itself."""
    options = {
        "CONTENT_LENGTH": "",
        "CONTENT_TYPE": JSON,
        "wsgi.input": io.BytesIO(json.dumps(BODY).encode()),
        "wsgi.input_terminated": True,
    }
    response = client.generic("POST", "/v1/completions", b"", **options)
    assert response.status_code == 200


def test_csrf_is_no_matter_of_an_api(settings):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    assert post(client, "/v1/completions", BODY).status_code == 200
    assert post(client, "/tokenize", {"prompt": "x"}).status_code == 200


@pytest.mark.django_db
def test_site_that_requires_a_login(client, settings):
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    assert post(client, "/v1/completions", BODY).status_code == 200
    for path in ("/v1/models", "/docs", "/openapi.json"):
        assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("get", "/v1/completions", "POST"),
        ("delete", "/v1/completions", "POST"),
        ("post", "/v1/models", "GET"),
        ("delete", "/v1/health/live", "GET"),
        ("put", "/tokenize", "POST"),
        ("options", "/v1/models", "GET"),
    ],
)
def test_other_methods(client, method, path, allowed):
    response = getattr(client, method)(path)
    check_error(response, 405)
    assert allowed in response.headers["allow"]


@pytest.mark.parametrize("path", ["/v1/completions/", "/v1/nope", "/v1/models/", "/docs/nope.js"])
@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_unknown_paths(client, path, accept):
    check_error(client.get(path, headers={"accept": accept}), 404)


def test_post_with_a_slash_is_not_redirected(client):
    check_error(post(client, "/v1/completions/", BODY), 404)


def test_foreign_host(client):
    check_error(client.get("/v1/models", headers={"host": "evil.example"}), 400)


def test_fault_of_ours_is_no_html_page(client, monkeypatch):
    monkeypatch.setattr("completions.metadata.version", lambda: 1 / 0)
    client.raise_request_exception = False
    check_error(client.get("/v1/version"), 500)


# --- the neighbours


def test_models(client):
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [card["id"] for card in listed["data"]] == ["fake", "alias"]
    card = client.get("/v1/models/fake").json()
    assert card == listed["data"][0]
    assert card == {
        "id": "fake",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "system",
        "root": "fake",
        "parent": None,
        "max_model_len": 256,
    }


def test_model_name_with_slashes(client, settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "ALIASES": ["org/model"]}
    assert client.get("/v1/models/org/model").json()["root"] == "fake"


def test_unknown_model(client):
    error = check_error(client.get("/v1/models/org/nope"), 404)
    assert error["message"] == "The model `org/nope` does not exist."


def test_health(client, engine):
    for path in ("/v1/health/live", "/ping"):
        assert client.get(path).json() == {
            "object": "health.response",
            "message": "Service is live.",
            "status": "live",
        }
    for path in ("/v1/health/ready", "/health"):
        assert client.get(path).json()["status"] == "ready"


@pytest.mark.parametrize("state", ["loading", "draining", "failed"])
def test_not_ready(client, engine, state):
    engine.state = state
    response = client.get("/v1/health/ready")
    check_error(response, 503)
    assert response.headers["retry-after"]
    assert client.get("/v1/health/live").status_code == 200


def test_no_model_is_set_up(client, settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MODEL": None, "ALIASES": []}
    check_error(client.get("/v1/health/ready"), 503)
    check_error(post(client, "/v1/completions", BODY), 404)
    check_error(client.get("/v1/models"), 503)


def test_metrics(client, engine):
    for path in ("/v1/metrics", "/metrics"):
        response = client.get(path)
        assert response.headers["content-type"].startswith("text/plain")
        text = response.content.decode()
        assert re.search(r'^num_requests_running\{model_name="fake"\} 0\.0$', text, re.MULTILINE)
        assert re.search(r'^num_request_max\{model_name="fake"\} 32\.0$', text, re.MULTILINE)


def test_metrics_before_there_is_an_engine(client):
    text = client.get("/metrics").content.decode()
    assert "# TYPE num_requests_running gauge" in text


def test_version(client):
    for path in ("/v1/version", "/version"):
        version = client.get(path).json()
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", version[name]) for name in ("release", "api"))


def test_metadata_license_and_manifest(client, settings, tmp_path):
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "LICENSE").write_text("Do as you like.")
    assert client.get("/v1/metadata").json()["modelInfo"] == [
        {"modelUrl": "tests", "shortName": "fake"}
    ]
    known = client.get("/v1/license").json()
    assert (known["name"], known["content"], known["size"]) == (
        "Apache-2.0",
        "Do as you like.",
        15,
    )
    assert re.fullmatch("[0-9a-f]{64}", known["sha"])
    manifest = client.get("/v1/manifest").json()["manifest_file"]
    assert "- name: LICENSE\n  size: 15\n" in manifest


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_tokenize_and_back(client, prefix):
    answer = post(client, f"{prefix}/tokenize", {"prompt": "hé"}).json()
    assert answer == {"count": 3, "max_model_len": 256, "tokens": [104, 195, 169]}
    back = post(client, f"{prefix}/detokenize", {"model": "alias", "tokens": answer["tokens"]})
    assert back.json() == {"prompt": "hé"}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/tokenize", {}, 422),
        ("/tokenize", {"prompt": 5}, 422),
        ("/tokenize", {"prompt": "x", "no_such_field": 1}, 422),
        ("/tokenize", {"prompt": "x", "add_special_tokens": None}, 422),
        ("/tokenize", {"prompt": "x", "model": "nope"}, 404),
        ("/tokenize", b"[", 400),
        ("/tokenize", {"prompt": "\ud83d"}, 400),
        ("/detokenize", {"tokens": "x"}, 422),
        ("/detokenize", {"tokens": [-1]}, 400),
        ("/detokenize", {"tokens": [1, 257]}, 400),
    ],
)
def test_tokenizer_refuses(client, path, body, status):
    check_error(post(client, path, body), status)


def test_tokenizer_wants_json(client):
    check_error(client.post("/tokenize", {"prompt": "x"}), 415)


def test_tokenizer_info(client):
    assert client.get("/tokenizer_info").json() == {
        "eos_token": "<eos>",
        "bos_token": None,
        "pad_token": "<eos>",
    }


def test_neighbours_while_loading(client, settings):
    settings.COMPLETIONS = {
        **settings.COMPLETIONS,
        "ENGINE": "tests.completions.fakes.LoadingEngine",
    }
    for path in ("/v1/models", "/v1/models/fake", "/v1/license", "/tokenizer_info"):
        response = client.get(path)
        check_error(response, 503)
        assert response.headers["retry-after"]


# --- the interface described


def test_document_lists_every_path(client):
    document = client.get("/openapi.json").json()
    assert {
        "/v1/completions",
        "/v1/models",
        "/v1/models/{model}",
        "/v1/health/live",
        "/v1/health/ready",
        "/v1/metrics",
        "/v1/version",
        "/v1/metadata",
        "/v1/license",
        "/v1/manifest",
        "/v1/tokenize",
        "/v1/detokenize",
        "/tokenize",
        "/detokenize",
        "/tokenizer_info",
        "/health",
        "/ping",
        "/version",
        "/metrics",
    } == document["paths"].keys()
    responses = document["paths"]["/v1/completions"]["post"]["responses"]
    assert {"200", "400", "422", "503"} <= responses.keys()


def completion_schema(document):
    body = document["paths"]["/v1/completions"]["post"]["requestBody"]["content"]
    assert list(body) == [JSON]
    name = body[JSON]["schema"]["$ref"].rpartition("/")[2]
    return document["components"]["schemas"][name]


def test_document_has_the_serializers_fields(client):
    schema = completion_schema(client.get("/openapi.json").json())
    assert schema["properties"].keys() == schema_of(CompletionSerializer).fields.keys()
    assert set(schema["required"]) == {"model", "prompt"}
    assert schema["properties"]["temperature"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 2,
        "nullable": True,
        "default": 1.0,
        "description": "0 is greedy.",
    }
    assert schema["properties"]["top_p"]["exclusiveMinimum"] is True


def test_document_says_what_an_answer_is(client, engine):
    """The answers of a real request are valid under the document's schema."""
    document = client.get("/openapi.json").json()
    body = {**BODY, "logprobs": 2, "echo": True, "prompt_logprobs": 1}
    answer = post(client, "/v1/completions", body).json()
    jsonschema.validate(answer, openapi_to_json_schema(openapi.COMPLETION))
    error = post(client, "/v1/completions", {**BODY, "n": 0}).json()
    jsonschema.validate(error, openapi_to_json_schema(openapi.ERROR))
    assert document["openapi"].startswith("3.0")


def openapi_to_json_schema(schema):
    """OpenAPI 3.0 says nullable where JSON Schema has a type null."""
    if isinstance(schema, list):
        return [openapi_to_json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: openapi_to_json_schema(value) for key, value in schema.items()}
    return {"anyOf": [inner, {"type": "null"}]} if inner.pop("nullable", False) else inner


def test_page_loads_nothing_from_elsewhere(client):
    response = client.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    links = re.findall(r'(?:src|href)="([^"]+)"', response.content.decode())
    assert len(links) == 3
    for link in links:
        assert client.get(link).status_code == 200
    assert "<script>" not in response.content.decode()


def test_document_knows_where_it_is_mounted(rf):
    from completions.views import docs

    response = docs.document(rf.get("/llm/openapi.json"))
    assert json.loads(response.content)["servers"] == [{"url": "/llm"}]


def test_names_of_the_paths():
    assert reverse("completions:completions") == "/v1/completions"
