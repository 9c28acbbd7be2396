"""Serializer fields of strict JSON types (spec section 1).

DRF's own fields take "5" for 5, 1 for true and trim text; these take what JSON says and nothing
else. Each field also says what it is (`type_name`, `range_text`, `json_schema`), so that the
OpenAPI document and the table in the docs come from the same declaration as the validation.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.fields import SkipField

JsonSchema = dict[str, Any]


class SkipsAbsent:
    """Null means absent, and an absent field isn't in the validated data.

    A field that has a default may be null unless it says otherwise. The caller fills defaults in,
    after `nvext` is merged, so they must not appear before.
    """

    allow_null: bool

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_null", "default" in options)
        super().__init__(*args, **options)

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        """Skip null where it is allowed."""
        if data is None and self.allow_null:
            raise SkipField
        return super().validate_empty_values(data)  # type: ignore[misc,no-any-return]

    def get_default(self) -> NoReturn:
        """Leave an absent field out."""
        raise SkipField


class StrictField(SkipsAbsent, serializers.Field[Any, Any, Any, Any]):
    """Base of the fields below."""

    type_name = ""
    range_text = ""
    default_error_messages: ClassVar = {
        "null": "must not be null.",
        "required": "is required.",
        "type": "must be {expected}.",
    }

    def json_schema(self) -> JsonSchema:
        """The accepted values as JSON Schema, without null and default."""
        raise NotImplementedError

    def to_representation(self, value: Any) -> Any:
        """Values are plain JSON."""
        return value

    def refuse_type(self, expected: str) -> NoReturn:
        """Raise the error of a wrong JSON type."""
        self.fail("type", expected=expected)


class StringField(StrictField):
    """A string, as it is."""

    type_name = "string"
    default_error_messages: ClassVar = {
        "string_too_short": "must have at least {limit} character(s).",
        "string_too_long": "must have at most {limit} characters.",
    }

    def __init__(
        self, *, min_length: int = 0, max_length: int | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.min_length, self.max_length = min_length, max_length
        if max_length is not None:
            self.range_text = f"{min_length}..{max_length:,} characters"

    def to_internal_value(self, data: Any) -> str:
        """Check type and length."""
        if not isinstance(data, str):
            self.refuse_type("a string")
        if len(data) < self.min_length:
            self.fail("string_too_short", limit=self.min_length)
        if self.max_length is not None and len(data) > self.max_length:
            self.fail("string_too_long", limit=self.max_length)
        return data

    def json_schema(self) -> JsonSchema:
        """A string."""
        schema: JsonSchema = {"type": "string"}
        if self.min_length:
            schema["minLength"] = self.min_length
        if self.max_length is not None:
            schema["maxLength"] = self.max_length
        return schema


class ChoiceField(StringField):
    """One of a few strings."""

    default_error_messages: ClassVar = {"enum": "must be one of {choices}."}

    def __init__(self, choices: Iterable[str], **options: Any) -> None:
        super().__init__(**options)
        self.choices = tuple(choices)
        self.range_text = ", ".join(self.choices)

    def to_internal_value(self, data: Any) -> str:
        """Check type and value."""
        value = super().to_internal_value(data)
        if value not in self.choices:
            self.fail("enum", choices=self.range_text)
        return value

    def json_schema(self) -> JsonSchema:
        """An enumeration."""
        return {"type": "string", "enum": list(self.choices)}


class BooleanField(StrictField):
    """True or false."""

    type_name = "bool"

    def to_internal_value(self, data: Any) -> bool:
        """Check the type."""
        if not isinstance(data, bool):
            self.refuse_type("true or false")
        return data

    def json_schema(self) -> JsonSchema:
        """A boolean."""
        return {"type": "boolean"}


class NumberField(StrictField):
    """A number between bounds; `above` is a bound that is excluded itself.

    With `range_is_rule` the contract calls a value out of range a broken rule (400) and not a
    schema error (422): whoever checks the rules then calls `check_range`.
    """

    type_name = "number"
    number: Callable[[Any], float] = float
    default_error_messages: ClassVar = {
        "greater_than_equal": "must be greater than or equal to {limit}.",
        "greater_than": "must be greater than {limit}.",
        "less_than_equal": "must be less than or equal to {limit}.",
    }

    def __init__(
        self,
        *,
        minimum: int | None = None,
        above: int | None = None,
        maximum: int | None = None,
        range_is_rule: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.minimum, self.above, self.maximum = minimum, above, maximum
        self.range_is_rule = range_is_rule
        self.range_text = _range_text(minimum, above, maximum)

    def to_internal_value(self, data: Any) -> float:
        """Check type and range."""
        self.check_type(data)
        if not self.range_is_rule:
            self.check_range(data)
        return self.number(data)

    def check_type(self, data: Any) -> None:
        """An integer is a number too; a boolean isn't."""
        if type(data) not in (int, float):
            self.refuse_type("a number")

    def check_range(self, value: float) -> None:
        """Raise ValidationError for a value out of range."""
        if self.minimum is not None and value < self.minimum:
            self.fail("greater_than_equal", limit=self.minimum)
        if self.above is not None and value <= self.above:
            self.fail("greater_than", limit=self.above)
        if self.maximum is not None and value > self.maximum:
            self.fail("less_than_equal", limit=self.maximum)

    def json_schema(self) -> JsonSchema:
        """A number with its bounds."""
        schema: JsonSchema = {"type": "number"}
        if self.minimum is not None:
            schema["minimum"] = self.minimum
        if self.above is not None:
            schema |= {"minimum": self.above, "exclusiveMinimum": True}
        if self.maximum is not None:
            schema["maximum"] = self.maximum
        return schema


class IntegerField(NumberField):
    """An integer, which may be written 16.0; `special` is allowed beside the range."""

    type_name = "int"
    number = int
    default_error_messages: ClassVar = {"special": "must be {special}, or at least {limit}."}

    def __init__(self, *, special: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.special = special
        if special is not None:
            self.range_text = f"{special} or {self.range_text}"

    def check_type(self, data: Any) -> None:
        """16.5 isn't an integer."""
        if not is_integer(data):
            self.refuse_type("an integer")

    def check_range(self, value: float) -> None:
        """Raise ValidationError for a value out of range that isn't the special one."""
        if self.special is None:
            super().check_range(value)
        elif value != self.special and value < (self.minimum or 0):
            self.fail("special", special=self.special, limit=self.minimum)

    def json_schema(self) -> JsonSchema:
        """An integer with its bounds."""
        schema = {**super().json_schema(), "type": "integer"}
        if self.special is not None:
            schema = {"type": "integer", "anyOf": [{"enum": [self.special]}, schema]}
        return schema


class IntegerListField(StrictField):
    """A list of integers."""

    type_name = "[int]"

    def to_internal_value(self, data: Any) -> tuple[int, ...]:
        """Check list and items."""
        if not isinstance(data, list):
            self.refuse_type("a list of integers")
        _check_items(data, is_integer, "must be an integer.")
        return tuple(map(int, data))

    def json_schema(self) -> JsonSchema:
        """A list of integers."""
        return {"type": "array", "items": {"type": "integer"}}


class StringListField(StrictField):
    """A list of strings."""

    type_name = "[string]"

    def to_internal_value(self, data: Any) -> tuple[str, ...]:
        """Check list and items."""
        if not isinstance(data, list):
            self.refuse_type("a list of strings")
        _check_items(data, _is_string, "must be a string.")
        return tuple(data)

    def json_schema(self) -> JsonSchema:
        """A list of strings."""
        return {"type": "array", "items": {"type": "string"}}


class StopField(StrictField):
    """One stop string or several; always several once validated."""

    type_name = "string, [string]"
    max_items, max_length = 64, 1000
    range_text = f"at most {max_items} strings of {max_length:,} characters"
    default_error_messages: ClassVar = {"too_long": "must have at most {limit} strings."}

    def to_internal_value(self, data: Any) -> tuple[str, ...]:
        """Check types, number and lengths."""
        stops = [data] if isinstance(data, str) else data
        if not isinstance(stops, list):
            self.refuse_type("a string or a list of strings")
        if len(stops) > self.max_items:
            self.fail("too_long", limit=self.max_items)
        _check_items(stops, _is_string, "must be a string.")
        limit = self.max_length
        _check_items(
            stops,
            lambda stop: len(stop) <= limit,
            f"must have at most {limit:,} characters.",
            "string_too_long",
        )
        return tuple(stops)

    def json_schema(self) -> JsonSchema:
        """A string or a list of them."""
        string = {"type": "string", "maxLength": self.max_length}
        return {"oneOf": [string, {"type": "array", "items": string, "maxItems": self.max_items}]}


class LogitBiasField(StrictField):
    """Token ids, written as decimal strings, and what is added to their logits."""

    type_name = "map string -> number"
    limit = 100
    range_text = f"values -{limit}..{limit}"

    def to_internal_value(self, data: Any) -> dict[int, float]:
        """Check every key and value."""
        if not isinstance(data, dict):
            self.refuse_type("an object of token ids and numbers")
        errors = {key: error for key, value in data.items() if (error := self._error(key, value))}
        if errors:
            raise ValidationError(errors)
        return {int(key): float(value) for key, value in data.items()}

    def _error(self, key: str, value: Any) -> list[str] | None:
        if not (key.isascii() and key.isdigit() and len(key) <= MAX_DIGITS):
            return ["the key must be a token id in decimal digits."]
        if type(value) not in (int, float):
            return ["must be a number."]
        if not -self.limit <= value <= self.limit:
            return [f"must be between -{self.limit} and {self.limit}."]
        return None

    def json_schema(self) -> JsonSchema:
        """An object of numbers."""
        number = {"type": "number", "minimum": -self.limit, "maximum": self.limit}
        return {"type": "object", "additionalProperties": number}


Prompts = list[str] | list[list[int]]


class PromptField(StrictField):
    """The four forms of a prompt; validated, it is a list of texts or a list of token id lists.

    Types are compared as sets, not item by item: a prompt of thousands of ids costs microseconds.
    Emptiness is a rule and not checked here.
    """

    type_name = "string, [string], [int], [[int]]"
    range_text = "not empty at any level"
    expected = "a string, a list of strings, a list of token ids, or a list of such lists"

    def to_internal_value(self, data: Any) -> Prompts:
        """Check the form."""
        if isinstance(data, str):
            return [data]
        if not isinstance(data, list):
            self.refuse_type(self.expected)
        types = set(map(type, data))
        if types <= {str}:
            return data
        if types == {int}:
            return [data]
        if types == {list}:
            return self._token_lists(data)
        return self.refuse_type(self.expected)

    def _token_lists(self, data: list[list[Any]]) -> Prompts:
        _check_items(data, lambda ids: set(map(type, ids)) <= {int}, "must be a list of token ids.")
        return data

    def json_schema(self) -> JsonSchema:
        """The four forms."""
        string, ids = {"type": "string"}, {"type": "array", "items": {"type": "integer"}}
        return {
            "oneOf": [
                string,
                {"type": "array", "items": string},
                ids,
                {"type": "array", "items": ids},
            ]
        }


class JsonSchemaField(StrictField):
    """A JSON Schema, as an object or as its text."""

    type_name = "string, object"

    def to_internal_value(self, data: Any) -> str | dict[str, Any]:
        """Check the type; the schema itself is compiled later."""
        if not isinstance(data, str | dict):
            self.refuse_type("an object or its JSON text")
        return data

    def json_schema(self) -> JsonSchema:
        """A string or any object."""
        return {"oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": {}}]}


class ObjectField(StrictField):
    """Any JSON object."""

    type_name = "object"

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Check the type."""
        if not isinstance(data, dict):
            self.refuse_type("an object")
        return data

    def json_schema(self) -> JsonSchema:
        """Any object."""
        return {"type": "object", "additionalProperties": {}}


MAX_DIGITS = 4000
"""Python refuses to read integers of more than 4,300 digits."""


def is_integer(value: Any) -> bool:
    """Whether a JSON value is an integer, 16.0 included."""
    return type(value) is int or (type(value) is float and value.is_integer())


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _check_items(
    items: list[Any], is_valid: Callable[[Any], bool], message: str, code: str = "type"
) -> None:
    """Raise ValidationError with an entry for each item at fault."""
    errors: dict[Any, Any] = {
        at: ValidationError(message, code).detail
        for at, item in enumerate(items)
        if not is_valid(item)
    }
    if errors:
        raise ValidationError(errors)


def _range_text(minimum: int | None, above: int | None, maximum: int | None) -> str:
    if above is not None:
        return f"({above}, {maximum}]"
    if maximum is not None:
        return f"{minimum}..{maximum}"
    return "" if minimum is None else f">= {minimum}"


class StrictFieldExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Shows drf-spectacular what a strict field accepts."""

    target_class = StrictField
    match_subclasses = True

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> JsonSchema:  # noqa: ARG002
        """The field's own schema."""
        schema: JsonSchema = self.target.json_schema()
        return schema
