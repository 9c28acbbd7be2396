"""Which JSON Schemas a backend can honour: everything else is refused by name and place."""

import json
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote

from engine.guided.backend import ConstraintError
from engine.guided.keywords import ANNOTATIONS, CHECKS, Dialect, Place, check_form, tidy

Schema = dict[str, Any] | bool

# Where a keyword holds schemas: of the same value, or of a part of it.
_SAME_VALUE = ("allOf", "anyOf", "oneOf")
_PART = ("items", "additionalProperties", "additionalItems")
_PART_LIST = ("prefixItems", "items")
_PART_MAP = ("properties", "patternProperties")


def parse_schema(text: str) -> Schema:
    """Read a schema; raises ConstraintError where it isn't a JSON object or boolean."""
    try:
        schema = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConstraintError(f"the schema is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise ConstraintError("a schema is a JSON object or a boolean")
    return schema


def check_schema(schema: Schema, dialect: Dialect) -> None:
    """Refuse what the dialect would ignore or could not finish; raises ConstraintError.

    The schema is tidied on the way.
    """
    try:
        walk = _Walk(schema, dialect)
        walk.run()
        _check_finite(walk.targets)
    except RecursionError:
        raise ConstraintError("the schema is nested too deeply") from None


def subschemas(schema: Any) -> Iterator[tuple[str, str, Any]]:
    """The schemas directly inside of one: keyword, JSON pointer from there, schema."""
    if not isinstance(schema, dict):
        return
    for keyword in (*_SAME_VALUE, *_PART_LIST):
        if isinstance(children := schema.get(keyword), list):
            for i, child in enumerate(children):
                yield keyword, f"/{keyword}/{i}", child
    for keyword in _PART:
        if keyword in schema and not isinstance(schema[keyword], list):
            yield keyword, f"/{keyword}", schema[keyword]
    for keyword in _PART_MAP:
        if isinstance(children := schema.get(keyword), dict):
            for name, child in children.items():
                name = name.replace("~", "~0").replace("/", "~1")  # noqa: PLW2901
                yield keyword, f"/{keyword}/{name}", child


class _Walk:
    """Visits everything that can be reached from the root; `targets` are the root and all refs."""

    def __init__(self, root: Schema, dialect: Dialect) -> None:
        self.dialect = dialect
        self.root = root
        self.targets: dict[str, Any] = {"#": root}
        self.waiting = ["#"]
        self.visited = "#"
        # For a place, the places whose schemas describe the very same value.
        self.same_value: dict[str, list[str]] = {}
        # For a target, the targets that are referred to anywhere inside of it.
        self.inside: dict[str, list[str]] = {}

    def run(self) -> None:
        while self.waiting:
            self.visited = self.waiting.pop()
            self._visit(self.targets[self.visited], self.visited)
        _refuse_cycles(self.same_value, "`$ref` leads back to itself")
        if not self.dialect.recursive:
            _refuse_cycles(self.inside, f"recursion is not supported by {self.dialect.backend}")

    def _visit(self, schema: Any, pointer: str) -> None:
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise ConstraintError(f"{pointer}: a schema is an object or a boolean")
        tidy(schema, self.dialect)
        self._check_keywords(Place(pointer, schema, self.dialect))
        if "$ref" in schema:
            target = self._resolve(schema["$ref"], pointer)
            self.same_value.setdefault(pointer, []).append(target)
        for keyword, inside, child in subschemas(schema):
            if keyword in _SAME_VALUE:
                self.same_value.setdefault(pointer, []).append(pointer + inside)
            self._visit(child, pointer + inside)

    def _check_keywords(self, place: Place) -> None:
        for keyword, value in place.schema.items():
            if keyword in ANNOTATIONS:
                continue
            if keyword not in self.dialect.keywords:
                raise place.unsupported(f"the keyword `{keyword}`")
            if check := CHECKS.get(keyword):
                check(value, place)
        check_form(place)

    def _resolve(self, ref: Any, pointer: str) -> str:
        """The place that a `$ref` leads to, which is remembered."""
        if not isinstance(ref, str) or not re.match(self.dialect.refs, ref):
            raise ConstraintError(
                f"{pointer}: `$ref` {json.dumps(ref)} is not supported by {self.dialect.backend}"
            )
        if ref not in self.targets:
            self.targets[ref] = self._look_up(ref, pointer)
            self.waiting.append(ref)
        self.inside.setdefault(self.visited, []).append(ref)
        return ref

    def _look_up(self, ref: str, pointer: str) -> Any:
        target: Any = self.root
        for part in unquote(ref).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            try:
                target = target[int(name) if isinstance(target, list) else name]
            except (LookupError, ValueError, TypeError):
                raise ConstraintError(
                    f"{pointer}: `$ref` {json.dumps(ref)} leads nowhere"
                ) from None
        return target


def _refuse_cycles(edges: dict[str, list[str]], reason: str) -> None:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        raise ConstraintError(f"{reason}: {' -> '.join(error.args[1])}") from None


def _check_finite(targets: dict[str, Any]) -> None:
    """Refuse a recursion that has no way out: a value that must have a part like itself."""
    finite: set[str] = set()
    while found := {ref for ref in targets.keys() - finite if _is_finite(targets[ref], finite)}:
        finite |= found
    if endless := targets.keys() - finite:
        raise ConstraintError(f"{min(endless)}: only an endless value could satisfy this schema")


def _is_finite(schema: Any, finite: set[str]) -> bool:
    """Whether some finite value may satisfy a schema, if those in `finite` can be satisfied."""
    if not isinstance(schema, dict) or "const" in schema or "enum" in schema:
        return True
    if "$ref" in schema and schema["$ref"] not in finite:
        return False
    for keyword in _SAME_VALUE:
        quantifier = all if keyword == "allOf" else any
        if keyword in schema and not quantifier(_is_finite(s, finite) for s in schema[keyword]):
            return False
    types = schema.get("type", "null")
    types = {types} if isinstance(types, str) else set(types)
    return (
        bool(types - {"object", "array"})
        or ("object" in types and all(_is_finite(s, finite) for s in _required_parts(schema)))
        or ("array" in types and all(_is_finite(s, finite) for s in _required_items(schema)))
    )


def _required_parts(schema: dict[str, Any]) -> Iterator[Any]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        yield properties.get(name, schema.get("additionalProperties"))


def _required_items(schema: dict[str, Any]) -> Iterator[Any]:
    prefix = schema.get("prefixItems", ())
    least = schema.get("minItems", 0)
    yield from prefix[:least]
    if least > len(prefix):
        yield schema.get("items")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
