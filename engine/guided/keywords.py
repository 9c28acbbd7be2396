"""The keywords of JSON Schema that a backend enforces, and values of them that it can't."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from engine.guided.backend import ConstraintError
from engine.guided.patterns import check_quantifiers

ANNOTATIONS = frozenset(
    (
        *("$comment", "$anchor", "$defs", "definitions"),
        *("title", "description", "default", "examples", "example", "deprecated"),
        *("readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema"),
        "discriminator",
    )
)
"""Keywords that assert nothing about a value (JSON Schema 2020-12, sections 8 and 9; OpenAPI)."""

TYPES = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))

COUNTS = frozenset(
    ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
)

MAX_MULTIPLE = 10_000
"""The automaton of `multipleOf` has a state per remainder."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a backend enforces of JSON Schema.

    `formats` are the values of `format` it knows, `stricter_formats` patterns to be set beside
    some of them.

    A backend that looks at one keyword and overlooks others beside it has `forms`: a keyword, or
    else a type, that decides about a schema, and all the keywords that may stand beside it.
    `refs` is a pattern of the `$ref` it can follow. With `plain_literals` those in `enum` and
    `const` must be strings without anything that JSON escapes.
    """

    backend: str
    keywords: frozenset[str]
    formats: frozenset[str] = frozenset()
    stricter_formats: Mapping[str, str] = field(default_factory=dict)
    forms: Mapping[str, frozenset[str]] = field(default_factory=dict)
    refs: str = r"#(/|$)"
    recursive: bool = True
    plain_literals: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A schema within the whole, at a JSON pointer."""

    pointer: str
    schema: dict[str, Any]
    dialect: Dialect

    def error(self, reason: str) -> ConstraintError:
        """What is wrong here."""
        return ConstraintError(f"{self.pointer}: {reason}")

    def unsupported(self, what: str) -> ConstraintError:
        """What the backend can't do here."""
        return self.error(f"{what} is not supported by {self.dialect.backend}")


def tidy(schema: dict[str, Any], dialect: Dialect) -> None:
    """Write a schema so that a backend reads it right: counts as integers, strict formats."""
    for keyword in COUNTS & schema.keys():
        if isinstance(schema[keyword], float) and schema[keyword].is_integer():
            schema[keyword] = int(schema[keyword])
    if schema.get("uniqueItems") is False:
        del schema["uniqueItems"]
    pattern = dialect.stricter_formats.get(str(schema.get("format")))
    if pattern and (stricter := {"pattern": pattern}) not in schema.get("allOf", ()):
        schema["allOf"] = [*schema.get("allOf", ()), stricter]


def _check_type(value: Any, place: Place) -> None:
    for name in value if isinstance(value, list) else [value]:
        if not isinstance(name, str) or name not in TYPES:
            raise place.error(f"`type` {json.dumps(name)} does not exist")


def _check_list(value: Any, place: Place) -> None:
    if not isinstance(value, list):
        raise place.error(f"{json.dumps(value)} should be a list")


def _check_names(value: Any, place: Place) -> None:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise place.error("`required` should be a list of names")


def _check_count(value: Any, place: Place) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise place.error(f"{json.dumps(value)} should be a count")


def _check_draft(value: Any, place: Place) -> None:
    if not re.match(r"https?://json-schema\.org/", str(value)):
        raise place.unsupported(f"the `$schema` {json.dumps(value)}")


def _check_id(_value: Any, place: Place) -> None:
    if place.pointer != "#":
        raise place.unsupported("`$id` below the root")


def _check_format(value: Any, place: Place) -> None:
    if not isinstance(value, str) or value not in place.dialect.formats:
        raise place.unsupported(f"the `format` {json.dumps(value)}")


def _check_pattern(value: Any, place: Place) -> None:
    if not isinstance(value, str):
        raise place.error("`pattern` should be a string")
    check_quantifiers(value, f"{place.pointer}: `pattern`")


def _check_pattern_properties(value: Any, place: Place) -> None:
    for pattern in value if isinstance(value, dict) else ():
        check_quantifiers(pattern, f"{place.pointer}: `patternProperties`")


def _check_additional_items(_value: Any, place: Place) -> None:
    if not isinstance(place.schema.get("items"), list):
        raise place.unsupported("`additionalItems` without a list of `items`")


def _check_min_properties(value: Any, place: Place) -> None:
    _check_count(value, place)
    # A name may be generated twice but counts once, so only the required ones are sure to differ.
    if value > max(1, len(set(place.schema.get("required", ())))):
        raise place.unsupported("`minProperties` above the number of `required` properties")


def _check_multiple_of(value: Any, place: Place) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise place.error(f"`multipleOf` {json.dumps(value)} should be a positive number")
    _, digits, exponent = Decimal(str(value)).as_tuple()
    if int("".join(map(str, digits))) * 10 ** max(0, int(exponent)) > MAX_MULTIPLE:
        raise place.unsupported(f"`multipleOf` {json.dumps(value)}")


def check_form(place: Place) -> None:
    """Refuse what a backend that has forms would overlook or get wrong."""
    schema, forms = place.schema, place.dialect.forms
    if not forms:
        return
    lead = next((keyword for keyword in forms if keyword in schema), schema.get("type"))
    if not isinstance(lead, str) or lead not in forms:
        raise place.unsupported("a schema without one single `type`")
    for keyword in schema.keys() - ANNOTATIONS - forms[lead] - {lead, "type"}:
        raise place.unsupported(f"`{keyword}` beside `{lead}`")
    if "properties" in schema:
        _check_property_names(place)
    if lead == "array" and ("items" not in schema or schema.get("maxItems") == 0):
        raise place.unsupported("an array without items")
    if lead in ("enum", "const"):
        _check_literals(schema["enum"] if lead == "enum" else [schema["const"]], place)


def _check_property_names(place: Place) -> None:
    names = place.schema["properties"].keys()
    required = set(place.schema.get("required", ()))
    for name in names:
        if not _is_plain(name):
            raise place.unsupported(f"the property name {json.dumps(name)}")
    if required - names:
        raise place.unsupported("`required` names that are not in `properties`")


def _check_literals(values: list[Any], place: Place) -> None:
    if "type" in place.schema and not (
        place.schema["type"] == "string" and all(isinstance(value, str) for value in values)
    ):
        raise place.unsupported("`type` beside `enum` or `const`")
    if place.dialect.plain_literals and not all(
        isinstance(value, str) and _is_plain(value) for value in values
    ):
        raise place.unsupported("a literal that is not a plain string")


def _is_plain(text: str) -> bool:
    return text == text.strip() != "" and json.dumps(text, ensure_ascii=False) == f'"{text}"'


CHECKS: dict[str, Callable[[Any, Place], None]] = {
    **dict.fromkeys(COUNTS, _check_count),
    "minProperties": _check_min_properties,
    "type": _check_type,
    "$id": _check_id,
    "allOf": _check_list,
    "anyOf": _check_list,
    "oneOf": _check_list,
    "enum": _check_list,
    "required": _check_names,
    "prefixItems": _check_list,
    "format": _check_format,
    "pattern": _check_pattern,
    "patternProperties": _check_pattern_properties,
    "additionalItems": _check_additional_items,
    "$schema": _check_draft,
    "multipleOf": _check_multiple_of,
}
"""Checks of a keyword's value, for those that have any; each raises ConstraintError."""
