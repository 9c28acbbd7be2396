"""The fields of every request body: the one declaration of spec sections 2, 3 and 9.

Validation, the OpenAPI document and the docs' field table are made from it.
"""

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.settings import api_settings

from completions.conf import settings
from completions.exceptions import invalid_schema
from completions.fields import (
    BooleanField,
    ChoiceField,
    IntegerField,
    IntegerListField,
    JsonSchemaField,
    LogitBiasField,
    NumberField,
    ObjectField,
    PromptField,
    SkipsAbsent,
    StopField,
    StringField,
    StringListField,
)
from completions.hints import did_you_mean

logger = logging.getLogger(__name__)

MAX_SEED = 9223372036854776000
SHOWN_INPUT = 1000
"""Longer faulty values are not echoed in an error's `input`."""


class ClosedSerializer(SkipsAbsent, serializers.Serializer[Any]):
    """A serializer that refuses unknown fields and reports every problem at once."""

    default_error_messages: ClassVar = {
        "invalid": "must be an object.",
        "null": "must not be null.",
        "required": "is required.",
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """The fields that are set, by name."""
        unknown = self._unknown_fields(data) if isinstance(data, dict) else {}
        try:
            values: dict[str, Any] = super().to_internal_value(data)
        except ValidationError as error:
            raise ValidationError({**error.detail, **unknown}) from None  # type: ignore[dict-item]
        if unknown:
            raise ValidationError(unknown)
        return values

    def _unknown_fields(self, data: dict[str, Any]) -> dict[str, list[ErrorDetail]]:
        unknown = [name for name in data if name not in self.fields]
        if unknown and settings.UNKNOWN_FIELDS == "ignore":
            logger.warning("ignored unknown fields: %s", ", ".join(unknown))
            return {}
        return {
            name: [ErrorDetail(f"unknown field.{did_you_mean(name, self.fields)}", "unknown_field")]
            for name in unknown
        }


class NvextSerializer(ClosedSerializer):
    """NIM's extension dictionary."""

    ignore_eos = BooleanField(default=None)
    top_k = IntegerField(minimum=1, special=-1, default=None)
    repetition_penalty = NumberField(above=0, maximum=2, range_is_rule=True, default=None)
    min_p = NumberField(minimum=0, maximum=1, range_is_rule=True, default=None)
    guided_json = JsonSchemaField(default=None)
    guided_regex = StringField(default=None)
    guided_choice = StringListField(default=None)
    guided_grammar = StringField(default=None)
    guided_decoding_backend = StringField(default=None)
    guided_whitespace_pattern = StringField(default=None)
    greed_sampling = BooleanField(default=None, help_text="Greedy, whatever `temperature` says.")
    use_raw_prompt = BooleanField(default=None, help_text="Without effect.")
    annotations = StringListField(default=None, help_text="Without effect.")


class StreamOptionsSerializer(ClosedSerializer):
    """What a stream carries beside the text."""

    include_usage = BooleanField(
        default=False, help_text="A last chunk with the usage of all choices."
    )
    continuous_usage_stats = BooleanField(
        default=False,
        help_text="With include_usage: each chunk carries its choice's running usage.",
    )
    include_obfuscation = BooleanField(default=None, help_text="Without effect.")


class JsonSchemaFormatSerializer(ClosedSerializer):
    """OpenAI's wrapper around a JSON Schema."""

    name = StringField(default=None)
    description = StringField(default=None)
    strict = BooleanField(default=None)
    schema = ObjectField(default=None)


class ResponseFormatSerializer(ClosedSerializer):
    """What the completion has to look like."""

    type = ChoiceField(["text", "json_object", "json_schema"])
    json_schema = JsonSchemaFormatSerializer(default=None)


class CompletionSerializer(ClosedSerializer):
    """The body of `POST /v1/completions`."""

    model = StringField(help_text="Name or alias of the served model.")
    prompt = PromptField(
        help_text="One or many prompts, as text or token ids; each yields `n` choices."
    )
    best_of = IntegerField(
        minimum=1,
        maximum=128,
        default=None,
        help_text="Candidates generated per prompt, of which the `n` most likely are returned; "
        "`n` by default.",
    )
    echo = BooleanField(default=False, help_text="Put the prompt into the text.")
    frequency_penalty = NumberField(
        minimum=-2,
        maximum=2,
        default=0.0,
        help_text="Subtracted from a token's logit for each time it was generated.",
    )
    presence_penalty = NumberField(
        minimum=-2,
        maximum=2,
        default=0.0,
        help_text="Subtracted from a token's logit once it was generated.",
    )
    repetition_penalty = NumberField(
        above=0,
        maximum=2,
        range_is_rule=True,
        default=1.0,
        help_text="Divides (or multiplies, if negative) the logits of all tokens so far.",
    )
    logit_bias = LogitBiasField(
        default=dict, help_text="Added to the logits of the named token ids."
    )
    logprobs = IntegerField(
        minimum=0,
        maximum=5,
        default=None,
        help_text="Report each token's logprob and so many alternatives.",
    )
    max_tokens = IntegerField(
        minimum=1, default=16, help_text="Generated tokens per choice at most."
    )
    min_tokens = IntegerField(
        minimum=0,
        range_is_rule=True,
        default=0,
        help_text="Generated tokens before a choice may end.",
    )
    n = IntegerField(minimum=1, maximum=128, default=1, help_text="Choices per prompt.")
    seed = IntegerField(
        minimum=-MAX_SEED,
        maximum=MAX_SEED,
        default=None,
        help_text="The same request and seed give the same completion; random by default.",
    )
    stop = StopField(default=(), help_text="The first of these ends the choice before it.")
    stop_token_ids = IntegerListField(
        default=(), help_text="The first of these tokens ends the choice."
    )
    include_stop_str_in_output = BooleanField(
        default=False, help_text="End the text after the stop, not before it."
    )
    stream = BooleanField(default=False, help_text="Answer with server-sent events.")
    stream_options = StreamOptionsSerializer(default=None, help_text="Only with `stream`.")
    suffix = StringField(
        default=None,
        help_text="Text after the hole to fill; needs a model with fill-in-the-middle tokens.",
    )
    temperature = NumberField(minimum=0, maximum=2, default=1.0, help_text="0 is greedy.")
    top_p = NumberField(
        above=0,
        maximum=1,
        default=1.0,
        help_text="Draw from the most likely tokens whose mass reaches this.",
    )
    top_k = IntegerField(
        minimum=1,
        special=-1,
        default=-1,
        help_text="Draw from so many of the most likely tokens; -1 is all.",
    )
    min_p = NumberField(
        minimum=0,
        maximum=1,
        range_is_rule=True,
        default=0.0,
        help_text="Drop tokens below this share of the top probability.",
    )
    user = StringField(
        min_length=1,
        max_length=1000,
        default=None,
        help_text="Who asks; stored with the request log.",
    )
    ignore_eos = BooleanField(default=False, help_text="Go on after an end-of-sequence token.")
    prompt_logprobs = IntegerField(
        minimum=0,
        range_is_rule=True,
        default=None,
        help_text="Report each prompt token's logprob and so many alternatives, at most "
        "`MAX_PROMPT_LOGPROBS`.",
    )
    add_special_tokens = BooleanField(
        allow_null=False,
        default=True,
        help_text="Let the tokenizer add BOS and the like to text prompts.",
    )
    response_format = ResponseFormatSerializer(
        default=None, help_text="Text, any JSON object, or JSON of a schema."
    )
    guided_json = JsonSchemaField(default=None, help_text="The completion is JSON of this schema.")
    guided_regex = StringField(default=None, help_text="The completion matches this pattern.")
    guided_choice = StringListField(default=None, help_text="The completion is one of these.")
    guided_grammar = StringField(
        default=None, help_text="The completion follows this GBNF or Lark grammar."
    )
    guided_decoding_backend = StringField(
        default=None, help_text="Library that enforces the constraint."
    )
    guided_whitespace_pattern = StringField(
        default=None, help_text="White space between the tokens of `guided_json`."
    )
    return_tokens_as_token_ids = BooleanField(
        default=False, help_text="Write tokens in `logprobs` as `token_id:<id>`."
    )
    nvext = NvextSerializer(default=None, help_text="NIM's extensions; the top level wins.")


class TokenizeSerializer(ClosedSerializer):
    """The body of `POST /tokenize`."""

    model = StringField(default=None, help_text="The served model by default.")
    prompt = StringField(help_text="The text.")
    add_special_tokens = BooleanField(
        allow_null=False, default=True, help_text="Add BOS and the like."
    )


class DetokenizeSerializer(ClosedSerializer):
    """The body of `POST /detokenize`."""

    model = StringField(default=None, help_text="The served model by default.")
    tokens = IntegerListField(help_text="Token ids.")


@cache
def schema_of(serializer: type[ClosedSerializer]) -> ClosedSerializer:
    """The one instance that validates all bodies: copying its fields would cost more than that."""
    return serializer()


def validate(serializer: type[ClosedSerializer], body: dict[str, Any]) -> dict[str, Any]:
    """The set fields of a body by name; an ApiError that lists all problems otherwise."""
    try:
        values: dict[str, Any] = schema_of(serializer).run_validation(body)
    except ValidationError as error:
        raise invalid_schema(list(_problems(error.detail, ["body"], body))) from None
    return values


def _problems(detail: Any, loc: list[str | int], value: Any) -> Iterator[dict[str, Any]]:
    """Flatten DRF's nested errors; `value` is what stands at `loc` in the body."""
    if isinstance(detail, dict):
        for key, inner in detail.items():
            here = [] if key == api_settings.NON_FIELD_ERRORS_KEY else [key]
            yield from _problems(inner, [*loc, *here], _at(value, here))
        return
    for problem in detail:
        yield {"type": problem.code, "loc": loc, "msg": str(problem), "input": _shown(value)}


def _at(value: Any, path: list[str | int]) -> Any:
    """The value at a path; a missing field shows the object that it is missing in."""
    for key in path:
        if isinstance(value, list) or (isinstance(value, dict) and key in value):
            value = value[key]  # type: ignore[index]
    return value


def _shown(value: Any) -> Any:
    return value if len(str(value)) <= SHOWN_INPUT else None
