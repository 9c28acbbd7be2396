import json
import re

import pytest

from engine.guided.backend import ConstraintError
from engine.guided.keywords import Dialect
from engine.guided.llguidance_job import DIALECT
from engine.guided.schema import check_schema, parse_schema

REF = {"$ref": "#/$defs/node"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"nullable": True}, "#: the keyword `nullable`"),
        ({"properties": {"a/b": {"contains": {}}}}, "#/properties/a~1b: the keyword `contains`"),
        ({"anyOf": [{}, {"if": {}}]}, "#/anyOf/1: the keyword `if`"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"not": {}}}}, "#/$defs/a: the keyword `not`"),
        ({"type": "no-such-type"}, '`type` "no-such-type" does not exist'),
        ({"type": ["string", 5]}, "`type` 5 does not exist"),
        ({"format": "credit-card"}, 'the `format` "credit-card"'),
        ({"items": {"pattern": "a**"}}, "#/items: `pattern`: multiple repeat"),
        ({"patternProperties": {"a**": {}}}, "`patternProperties`: multiple repeat"),
        ({"minLength": -1}, "-1 should be a count"),
        ({"required": [1]}, "`required` should be a list of names"),
        ({"properties": {"a": 5}}, "#/properties/a: a schema is an object or a boolean"),
        ({"minProperties": 2, "required": ["a"]}, "`minProperties`"),
        ({"multipleOf": 123457}, "`multipleOf` 123457"),
        ({"multipleOf": 0}, "`multipleOf` 0 should be a positive number"),
        ({"$ref": "#/$defs/none"}, '`$ref` "#/$defs/none" leads nowhere'),
        ({"$ref": "http://localhost/x.json"}, '`$ref` "http://localhost/x.json"'),
        ({"$ref": "#"}, "`$ref` leads back to itself: # -> #"),
        ({**REF, "$defs": {"node": {"allOf": [REF]}}}, "`$ref` leads back to itself"),
        ({"items": REF, "$defs": {"node": {"anyOf": [REF, {}]}}}, "`$ref` leads back to itself"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "endless"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "endless"),
        ({"items": {"properties": {"$id": {}}, "$id": "x"}}, "`$id` below the root"),
    ],
)
def test_what_would_be_ignored_or_never_end_is_refused_by_name_and_place(schema, reason):
    with pytest.raises(ConstraintError, match=re.escape(reason)):
        check_schema(schema, DIALECT)


@pytest.mark.parametrize(
    "schema",
    [
        {"title": "t", "default": {"contains": 1}, "examples": [{"if": 1}], "$comment": "c"},
        {"enum": [{"not": 1}], "$defs": {"unused": {"not": {}}}},
        {"properties": {"contains": {"const": {"$ref": "#"}}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]},
        {"$ref": "#/$defs/a~1b~0c%25", "$defs": {"a/b~c%": {"type": "null"}}},
        {"minProperties": 2, "required": ["a", "b"]},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "http://x/y"},
        True,
    ],
)
def test_what_is_no_constraint_or_has_a_way_out_is_accepted(schema):
    check_schema(schema, DIALECT)


def test_equal_things_are_written_in_one_way():
    schema = {"items": {"minLength": 2.0, "uniqueItems": False}, "maxItems": 3.0}
    check_schema(schema, DIALECT)
    assert schema == {"items": {"minLength": 2}, "maxItems": 3}
    assert isinstance(schema["maxItems"], int)


@pytest.mark.parametrize(
    "text", ["{not JSON", "[]", '"x"', "NaN", '{"minimum": NaN}', "[" * 99_999]
)
def test_a_schema_is_a_json_object_or_a_boolean(text):
    with pytest.raises(ConstraintError, match=r"schema is(n't| not)? "):
        parse_schema(text)


def test_a_deep_schema_is_refused():
    schema = {}
    for _ in range(2000):
        schema = {"items": schema}
    with pytest.raises(ConstraintError, match="nested too deeply"):
        check_schema(schema, DIALECT)


NARROW = Dialect(
    "narrow",
    keywords=frozenset(("type", "minLength", "anyOf", "properties", "required", "enum", "$ref")),
    forms={
        "anyOf": frozenset(),
        "enum": frozenset(),
        "$ref": frozenset(),
        "properties": frozenset(("required",)),
        "string": frozenset(("minLength",)),
    },
    refs=r"#/\$defs/\w+$",
    recursive=False,
    plain_literals=True,
)
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, "a schema without one single `type`"),
        ({"type": ["string", "null"]}, "a schema without one single `type`"),
        ({"type": "integer"}, "a schema without one single `type`"),
        ({"anyOf": [STRING], "minLength": 1}, "`minLength` beside `anyOf`"),
        ({"properties": {}, "required": ["a"]}, "`required` names that are not in `properties`"),
        ({"properties": {'"': STRING}, "required": ['"']}, "the property name"),
        ({"enum": ["a", 1]}, "a literal that is not a plain string"),
        ({"enum": ["a\n"]}, "a literal that is not a plain string"),
        ({"enum": [1], "type": "string"}, "`type` beside `enum`"),
        ({**REF, "$defs": {"node": {"properties": {"a": REF}, "required": ["a"]}}}, "recursion"),
    ],
)
def test_a_narrow_dialect_refuses_what_it_would_overlook(schema, reason):
    with pytest.raises(ConstraintError, match=re.escape(reason)):
        check_schema(json.loads(json.dumps(schema)), NARROW)
