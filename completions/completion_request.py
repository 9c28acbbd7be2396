"""A completion request that passed the schema and the rules between its fields (section 2)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from rest_framework.exceptions import ValidationError

from completions.conf import settings
from completions.exceptions import BadRequest
from completions.fields import NumberField, Prompts
from completions.serializers import CompletionSerializer, NvextSerializer, schema_of, validate
from engine.sampling_params import GuidedKind, GuidedParams, SamplingParams

Fields = dict[str, Any]

UNBOUNDED_TOP_K = 2**31 - 1
"""Above any vocabulary."""

GUIDED_FIELDS: dict[str, GuidedKind] = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
}


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What a client asked for.

    `prompt` is the field as it was sent and `prompts` what it means; `changed` has the other
    fields that differ from their defaults, but for model and user.
    """

    model: str
    prompt: str | list[Any]
    prompts: Prompts
    params: SamplingParams
    echo: bool
    logprobs: int | None
    prompt_logprobs: int | None
    stream: bool
    include_usage: bool
    continuous_usage: bool
    suffix: str | None
    add_special_tokens: bool
    return_tokens_as_token_ids: bool
    user: str | None
    changed: Fields

    @property
    def num_choices(self) -> int:
        """Choices that are returned."""
        return len(self.prompts) * self.params.n


def read_request(body: Fields) -> CompletionRequest:
    """Check a parsed body; raises the ApiError of its first failing step."""
    given = validate(CompletionSerializer, body)
    fields = _defaults() | _merged(given)
    for check in RULES:
        check(fields, given)
    return CompletionRequest(
        model=fields["model"],
        prompt=body["prompt"],
        prompts=fields["prompt"],
        params=_sampling_params(fields),
        echo=fields["echo"],
        logprobs=fields["logprobs"],
        prompt_logprobs=None if fields["stream"] else fields["prompt_logprobs"],
        stream=fields["stream"],
        include_usage=bool(_stream_option(fields, "include_usage")),
        continuous_usage=bool(_stream_option(fields, "continuous_usage_stats")),
        suffix=fields["suffix"] or None,
        add_special_tokens=fields["add_special_tokens"],
        return_tokens_as_token_ids=fields["return_tokens_as_token_ids"],
        user=fields["user"],
        changed=_changed(body),
    )


@cache
def _defaults() -> Fields:
    fields = schema_of(CompletionSerializer).fields
    return {
        name: field.default() if callable(field.default) else field.default
        for name, field in fields.items()
        if not field.required
    }


def _merged(given: Fields) -> Fields:
    """Fill what is not set at the top level from `nvext` (section 3)."""
    nvext = dict(given.get("nvext", {}))
    fields = nvext | given
    if nvext.pop("greed_sampling", False):
        fields["temperature"] = 0.0
    return fields


def _stream_option(fields: Fields, name: str) -> Any:
    return (fields["stream_options"] or {}).get(name)


def _changed(body: Fields) -> Fields:
    """What the log keeps of the parameters, as they were sent."""
    defaults = _defaults()
    return {
        name: value
        for name, value in body.items()
        if name not in ("model", "prompt", "user")
        and value is not None
        and not (name in defaults and value == defaults[name])
    }


def _sampling_params(fields: Fields) -> SamplingParams:
    reported = [fields["prompt_logprobs"]] if not fields["stream"] else []
    if fields["echo"]:
        reported.append(fields["logprobs"])
    wanted = [k for k in reported if k is not None]
    return SamplingParams(
        n=fields["n"],
        best_of=fields["best_of"],
        max_tokens=fields["max_tokens"],
        min_tokens=fields["min_tokens"],
        temperature=fields["temperature"],
        top_p=fields["top_p"],
        top_k=min(fields["top_k"], UNBOUNDED_TOP_K),
        min_p=fields["min_p"],
        frequency_penalty=fields["frequency_penalty"],
        presence_penalty=fields["presence_penalty"],
        repetition_penalty=fields["repetition_penalty"],
        logit_bias=fields["logit_bias"],
        seed=fields["seed"],
        stop=fields["stop"],
        stop_token_ids=fields["stop_token_ids"],
        include_stop_str_in_output=fields["include_stop_str_in_output"],
        ignore_eos=fields["ignore_eos"],
        logprobs=fields["logprobs"],
        prompt_logprobs=max(wanted, default=None),
        guided=_guided_params(fields),
    )


def _guided_params(fields: Fields) -> GuidedParams | None:
    for name, kind, source in _constraints(fields):
        return GuidedParams(
            kind,
            source,
            fields["guided_whitespace_pattern"],
            fields["guided_decoding_backend"],
            name,
        )
    return None


def _constraints(fields: Fields) -> Iterator[tuple[str, GuidedKind, str]]:
    for name, kind in GUIDED_FIELDS.items():
        value = fields[name]
        if value is not None:
            yield name, kind, value if isinstance(value, str) else json.dumps(value)
    form = fields["response_format"] or {"type": "text"}
    if form["type"] == "json_object":
        yield "response_format", "json", '{"type": "object"}'
    elif form["type"] == "json_schema":
        yield "response_format", "json", json.dumps(form["json_schema"]["schema"])


# The rules: each looks at the fields with their defaults and at what was given.


def _ranges(fields: Fields, given: Fields) -> None:
    """Ranges whose violation the contract calls 400."""
    nested = given.get("nvext", {})
    for serializer, values, prefix in (
        (CompletionSerializer, given, ""),
        (NvextSerializer, nested, "nvext."),
    ):
        for name, field in schema_of(serializer).fields.items():
            if isinstance(field, NumberField) and field.range_is_rule and name in values:
                _check_range(field, values[name], prefix + name)
    if (fields["prompt_logprobs"] or 0) > settings.MAX_PROMPT_LOGPROBS:
        limit = settings.MAX_PROMPT_LOGPROBS
        _refuse("prompt_logprobs", f"must be less than or equal to {limit}.")


def _check_range(field: NumberField, value: float, param: str) -> None:
    try:
        field.check_range(value)
    except ValidationError as error:
        (problem,) = error.detail
        _refuse(param, str(problem))


def _prompt(fields: Fields, _: Fields) -> None:
    prompts = fields["prompt"]
    if not prompts:
        _refuse("prompt", "must not be empty.")
    for at, prompt in enumerate(prompts):
        if not len(prompt):
            _refuse("prompt" if len(prompts) == 1 else f"prompt.{at}", "must not be empty.")
    if fields["suffix"] and not isinstance(prompts[0], str):
        _refuse("suffix", "can't be combined with a prompt of token ids.")


def _candidates(fields: Fields, _: Fields) -> None:
    best_of = fields["n"] if fields["best_of"] is None else fields["best_of"]
    if best_of < fields["n"]:
        _refuse("best_of", f"must be at least n, which is {fields['n']}.")
    if fields["stream"] and best_of > fields["n"]:
        _refuse("best_of", "can't be greater than n with stream.")
    if len(fields["prompt"]) * best_of > settings.MAX_CANDIDATES:
        limit = settings.MAX_CANDIDATES
        _refuse("prompt", f"prompts times best_of (or n) must be at most {limit}.")


def _stream(fields: Fields, given: Fields) -> None:
    if not fields["stream"]:
        if "stream_options" in given:
            _refuse("stream_options", "is only allowed with stream.")
        return
    if fields["echo"]:
        _refuse("echo", "can't be combined with stream.")
    if fields["prompt_logprobs"]:
        _refuse("prompt_logprobs", "can't be reported with stream.")


def _lengths(fields: Fields, _: Fields) -> None:
    if fields["min_tokens"] > fields["max_tokens"]:
        _refuse("min_tokens", f"must be at most max_tokens, which is {fields['max_tokens']}.")
    if "" in fields["stop"]:
        _refuse("stop", "must not be an empty string.")


def _guided(fields: Fields, _: Fields) -> None:
    form = fields["response_format"] or {"type": "text"}
    if form["type"] == "json_schema" and "schema" not in form.get("json_schema", {}):
        _refuse("response_format.json_schema.schema", "is required with type json_schema.")
    if fields["guided_choice"] == ():
        _refuse("guided_choice", "must have at least one item.")
    if fields["guided_whitespace_pattern"] is not None and fields["guided_json"] is None:
        _refuse("guided_whitespace_pattern", "is only allowed with guided_json.")
    constraints = [name for name in GUIDED_FIELDS if fields[name] is not None]
    if form["type"] != "text":
        constraints.append("response_format")
    if len(constraints) > 1:
        _refuse(constraints[0], f"only one of {', '.join(constraints)} may be set.")


def _refuse(param: str, message: str) -> None:
    raise BadRequest(f"{param}: {message}", param)


RULES: tuple[Callable[[Fields, Fields], None], ...] = (
    _ranges,
    _prompt,
    _candidates,
    _stream,
    _lengths,
    _guided,
)
