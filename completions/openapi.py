"""The OpenAPI document; the request bodies in it come from the serializers."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.settings import patched_settings
from drf_spectacular.utils import OpenApiResponse, extend_schema

from completions import metadata

Json = dict[str, Any]

STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}


def an_object(**properties: Json) -> Json:
    """An object that has all the properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def nullable(schema: Json) -> Json:
    """The schema, or null."""
    return {**schema, "nullable": True}


def a_list(items: Json) -> Json:
    """A list of items."""
    return {"type": "array", "items": items}


USAGE = an_object(
    prompt_tokens=INTEGER,
    completion_tokens=INTEGER,
    total_tokens=INTEGER,
    prompt_tokens_details=an_object(cached_tokens=INTEGER),
)
LOGPROBS = an_object(
    tokens=a_list(STRING),
    token_logprobs=a_list(nullable({"type": "number"})),
    top_logprobs=a_list(nullable({"type": "object", "additionalProperties": {"type": "number"}})),
    text_offset=a_list(INTEGER),
)
CHOICE = an_object(
    index=INTEGER,
    text=STRING,
    logprobs=nullable(LOGPROBS),
    finish_reason={"type": "string", "enum": ["stop", "length"]},
    stop_reason={"nullable": True, "oneOf": [INTEGER, STRING]},
    prompt_logprobs=nullable(a_list(nullable({"type": "object", "additionalProperties": {}}))),
)
COMPLETION = an_object(
    id=STRING,
    object=STRING,
    created=INTEGER,
    model=STRING,
    choices=a_list(CHOICE),
    usage=USAGE,
)
MODEL = an_object(
    id=STRING,
    object=STRING,
    created=INTEGER,
    owned_by=STRING,
    root=STRING,
    parent=nullable(STRING),
    max_model_len=INTEGER,
)
LICENSE = an_object(
    name=STRING, path=STRING, sha=STRING, size=INTEGER, url=STRING, type=STRING, content=STRING
)
ERROR_FACTS: dict[str, Json] = {
    "message": STRING,
    "type": STRING,
    "param": nullable(STRING),
    "code": INTEGER,
}
ERROR = an_object(object=STRING, **ERROR_FACTS, error=an_object(**ERROR_FACTS))
PROBLEM = an_object(type=STRING, loc=a_list({}), msg=STRING, input={})
ERROR["properties"]["detail"] = a_list(PROBLEM)

_ERRORS = {
    400: "The fields contradict each other or the model, or the body is not JSON.",
    404: "No such model.",
    405: "No such method here.",
    413: "The body is too large.",
    415: "The body is not labelled as JSON.",
    422: "A field breaks the schema; `detail` lists all problems.",
    500: "A fault of the server.",
    503: "Loading, shutting down, or too many requests; see Retry-After.",
}


def answers(description: str, schema: Json, *errors: int) -> dict[int, OpenApiResponse]:
    """The responses of an endpoint: 200 and the errors that it knows."""
    refusals = {status: OpenApiResponse(ERROR, _ERRORS[status]) for status in errors}
    return {200: OpenApiResponse(schema, description), **refusals}


class ContractSchema(AutoSchema):
    """Says nothing of authentication classes, which this contract does not have."""

    def get_auth(self) -> list[Any]:
        """No DRF authentication."""
        return []


Method = TypeVar("Method", bound=Callable[..., Any])


def describe(**options: Any) -> Callable[[Method], Method]:
    """`extend_schema` on ContractSchema, whatever DRF's DEFAULT_SCHEMA_CLASS is in a site."""

    def decorate(method: Method) -> Method:
        method.kwargs = {"schema": ContractSchema}  # type: ignore[attr-defined]
        return extend_schema(**options)(method)

    return decorate


@cache
def document() -> Json:
    """The OpenAPI document, with paths relative to where the URLconf is mounted."""
    facts = {
        "TITLE": "Completions",
        "DESCRIPTION": "NVIDIA NIM's OpenAI-compatible completions endpoint.",
        "VERSION": metadata.API_VERSION,
        "COMPONENT_SPLIT_REQUEST": True,
        "SERVERS": [],
        "PREPROCESSING_HOOKS": [],
        "POSTPROCESSING_HOOKS": [],
        "SCHEMA_PATH_PREFIX": "",
        "SCHEMA_PATH_PREFIX_TRIM": False,
        "DISABLE_ERRORS_AND_WARNINGS": True,  # aliases get numbered operation ids, as they should
    }
    with patched_settings(facts):
        generator = SchemaGenerator(urlconf="completions.urls")  # type: ignore[no-untyped-call]
        schema: Json = generator.get_schema(public=True)  # type: ignore[no-untyped-call]
    return schema
