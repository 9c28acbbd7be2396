"""The keywords of JSON Schema that a backend enforces, and values of them that it can't."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from engine.guided.backend import ConstraintError
from engine.guided.patterns import check_quantifiers

ANNOTATIONS = frozenset(
    (
        *("$schema", "$comment", "$anchor", "$defs", "definitions"),
        *("title", "description", "default", "examples", "example", "deprecated"),
        *("readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema"),
        "discriminator",
    )
)
"""Keywords that assert nothing about a value (JSON Schema 2020-12, sections 8 and 9; OpenAPI)."""

TYPES = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))

MAX_MULTIPLE = 10_000
"""The automaton of `multipleOf` has a state per remainder."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a backend enforces of JSON Schema; `formats` are the values of `format` it knows."""

    backend: str
    keywords: frozenset[str]
    formats: frozenset[str] = frozenset()


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
        raise place.error(f"{json.dumps(value)} should be a non-negative integer")


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


def _check_unique_items(value: Any, place: Place) -> None:
    if value is not False:
        raise place.unsupported("the keyword `uniqueItems`")


def _check_min_properties(value: Any, place: Place) -> None:
    # A name may be generated twice but counts once, so only the required ones are sure to differ.
    _check_count(value, place)
    if value > max(1, len(set(place.schema.get("required", ())))):
        raise place.unsupported("`minProperties` above the number of `required` properties")


def _check_multiple_of(value: Any, place: Place) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise place.error(f"`multipleOf` {json.dumps(value)} should be a positive number")
    _, digits, exponent = Decimal(str(value)).as_tuple()
    if int("".join(map(str, digits))) * 10 ** max(0, int(exponent)) > MAX_MULTIPLE:
        raise place.unsupported(f"`multipleOf` {json.dumps(value)}")


CHECKS: dict[str, Callable[[Any, Place], None]] = {
    "type": _check_type,
    "$id": _check_id,
    "allOf": _check_list,
    "anyOf": _check_list,
    "oneOf": _check_list,
    "enum": _check_list,
    "required": _check_names,
    "prefixItems": _check_list,
    "minItems": _check_count,
    "format": _check_format,
    "pattern": _check_pattern,
    "patternProperties": _check_pattern_properties,
    "additionalItems": _check_additional_items,
    "uniqueItems": _check_unique_items,
    "minProperties": _check_min_properties,
    "multipleOf": _check_multiple_of,
}
"""Checks of a keyword's value, for those that have any; each raises ConstraintError."""
