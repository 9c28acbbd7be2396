"""A hundred JSON schemas as applications write them, with prompts that lead up to a value."""

from typing import Any

Schema = dict[str, Any]

TEXT = {"type": "string", "maxLength": 24}
NAME = {"type": "string", "minLength": 1, "maxLength": 16}
COUNT = {"type": "integer", "minimum": 0, "maximum": 999}
AMOUNT = {"type": "number", "minimum": 0, "maximum": 10_000}
FLAG = {"type": "boolean"}
DATE = {"type": "string", "format": "date"}
UUID = {"type": "string", "format": "uuid"}


def obj(properties: Schema, *optional: str, **more: Any) -> Schema:
    """A closed object; all of its properties are required but the optional ones."""
    required = [name for name in properties if name not in optional]
    closed = {"type": "object", "properties": properties, "required": required}
    return closed | {"additionalProperties": False} | more


def arr(items: Any, least: int = 1, most: int = 3) -> Schema:
    """A short array."""
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def enum(*values: Any) -> Schema:
    """One of some values."""
    return {"enum": list(values)}


def text(pattern: str) -> Schema:
    """A string that matches a pattern."""
    return {"type": "string", "pattern": pattern}


def ref(name: str) -> Schema:
    """A reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


PERSON = obj({"name": NAME, "age": {"type": "integer", "minimum": 0, "maximum": 120}})
ADDRESS = obj({"street": TEXT, "city": NAME, "zip": text("^[0-9]{5}$")})
LINE = obj({"item": NAME, "quantity": COUNT, "price": AMOUNT})
POINT = {"type": "array", "prefixItems": [AMOUNT, AMOUNT], "items": False, "minItems": 2}
TREE = {
    "$defs": {"node": obj({"value": COUNT, "children": arr(ref("node"), 0, 2)})},
    **ref("node"),
}
LINKED_LIST = obj(
    {"head": COUNT, "tail": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, title="A linked list"
)

# Records as applications ask for them.
RECORDS: list[tuple[str, Schema]] = [
    ("A person as JSON:", PERSON),
    ("Employee:", obj({"person": PERSON, "role": enum("engineer", "manager", "clerk")})),
    ("Her address as JSON:", ADDRESS),
    ("The invoice:", obj({"number": text("^INV-[0-9]{4}$"), "lines": arr(LINE), "paid": FLAG})),
    ("Weather in Oslo:", obj({"celsius": {"type": "number"}, "sky": enum("clear", "cloudy")})),
    ("A recipe:", obj({"title": TEXT, "minutes": COUNT, "ingredients": arr(TEXT, 2, 4)})),
    ("A book:", obj({"title": TEXT, "author": NAME, "year": COUNT, "isbn": text("^[0-9]{13}$")})),
    ("A song:", obj({"title": TEXT, "seconds": COUNT, "genres": arr(enum("rock", "pop", "jazz"))})),
    ("Sentiment of 'I love it':", obj({"label": enum("good", "bad"), "score": AMOUNT})),
    ("Spam or not?", obj({"spam": FLAG, "reason": TEXT}, "reason")),
    ("Extract the date:", obj({"date": DATE})),
    ("Meeting:", obj({"start": {"type": "string", "format": "date-time"}, "topic": TEXT})),
    ("A user account:", obj({"id": UUID, "email": {"type": "string", "format": "email"}})),
    ("Server:", obj({"ip": {"type": "string", "format": "ipv4"}, "port": COUNT})),
    ("A call of get_weather:", obj({"name": {"const": "get_weather"}, "city": NAME})),
    ("A tool call:", obj({"tool": enum("search", "add"), "arguments": {"type": "object"}})),
    ("Move:", obj({"from": text("^[a-h][1-8]$"), "to": text("^[a-h][1-8]$")})),
    ("A colour:", obj({"red": COUNT, "green": COUNT, "blue": COUNT})),
    ("The same as hex:", obj({"hex": text("^#[0-9a-f]{6}$")})),
    ("A triangle:", arr(POINT, 3, 3)),
    ("GeoJSON:", obj({"type": {"const": "Point"}, "coordinates": POINT})),
    ("Configuration:", obj({"debug": FLAG, "level": enum("info", "warning", "error")}, "level")),
    ("Package:", obj({"name": text("^[a-z-]{1,12}$"), "version": text(r"^\d\.\d\.\d$")})),
    ("Opening hours:", obj(dict.fromkeys(["mon", "tue", "wed"], text("^[0-9]{2}:[0-9]{2}$")))),
    (
        "A quiz question:",
        obj({"question": TEXT, "options": arr(TEXT, 4, 4), "answer": enum(*"ABCD")}),
    ),
    ("Translation:", obj({"en": TEXT, "fr": TEXT, "de": TEXT})),
    ("Named entities:", arr(obj({"text": NAME, "kind": enum("person", "place", "time")}), 1, 2)),
    ("A review:", obj({"stars": {"type": "integer", "minimum": 1, "maximum": 5}, "text": TEXT})),
    ("The diff:", arr(obj({"op": enum("add", "remove"), "path": text("^/[a-z]{1,9}$")}), 1, 2)),
    ("A flight:", obj({"from": text("^[A-Z]{3}$"), "to": text("^[A-Z]{3}$"), "gate": COUNT})),
    ("Bank account:", obj({"iban": text("^[A-Z]{2}[0-9]{20}$"), "balance": {"type": "number"}})),
    ("A dog:", obj({"name": NAME, "age": {"type": "integer", "minimum": 0, "maximum": 20}})),
    ("Steps of the plan:", obj({"steps": arr(obj({"do": TEXT, "why": TEXT}, "why"), 1, 2)})),
    ("SQL query:", obj({"table": enum("users", "orders"), "limit": COUNT, "where": TEXT}, "where")),
    ("A playing card:", obj({"suit": enum("♠", "♥", "♦", "♣"), "rank": enum("A", "K", 10, 9)})),
    ("Measurement:", obj({"value": {"type": "number"}, "unit": enum("m", "km", "°C")})),
    ("A matrix:", arr(arr(COUNT, 2, 2), 2, 2)),
    ("Contact:", obj({"name": NAME, "phones": arr(text(r"^\+[0-9]{6,9}$"), 1, 2)}, "phones")),
    ("A family:", obj({"parent": PERSON, "children": arr(PERSON, 0, 2)})),
    ("A tree:", TREE),
    ("A linked list:", LINKED_LIST),
    ("A log line:", obj({"time": {"type": "string", "format": "time"}, "message": TEXT})),
    ("How long?", obj({"duration": {"type": "string", "format": "duration"}})),
    ("Where?", obj({"host": {"type": "string", "format": "hostname"}})),
    ("Link:", obj({"url": {"type": "string", "format": "uri", "maxLength": 40}})),
    (
        "Ticket:",
        obj(
            {
                "id": COUNT,
                "state": enum("open", "closed"),
                "assignee": {"anyOf": [NAME, {"type": "null"}]},
            }
        ),
    ),
    ("A vote:", obj({"yes": COUNT, "no": COUNT, "abstain": COUNT})),
    (
        "Product:",
        obj({"sku": text("^[A-Z]{3}-[0-9]{3}$"), "tags": arr(NAME, 0, 3), "price": AMOUNT}),
    ),
    ("Patient:", obj({"id": UUID, "born": DATE, "allergies": arr(NAME, 0, 2)})),
    (
        "Game state:",
        obj({"board": arr(arr(enum("x", "o", ""), 3, 3), 3, 3), "turn": enum("x", "o")}),
    ),
]

# One feature of JSON Schema each.
FEATURES: list[tuple[str, Schema]] = [
    ("Yes or no:", FLAG),
    ("Nothing:", {"type": "null"}),
    ("A number:", {"type": "integer"}),
    ("Pi:", {"type": "number"}),
    ("A word:", {"type": "string", "maxLength": 12}),
    ("Three letters:", {"type": "string", "minLength": 3, "maxLength": 3}),
    ("Any short text:", {"type": "string", "maxLength": 5}),
    ("An empty text:", {"type": "string", "maxLength": 0}),
    ("A digit:", {"type": "integer", "minimum": 0, "maximum": 9}),
    ("Negative:", {"type": "integer", "maximum": -1, "minimum": -50}),
    ("Between:", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    ("Dozens:", {"type": "integer", "multipleOf": 12, "minimum": 0, "maximum": 144}),
    ("Quarters:", {"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 2}),
    ("A constant:", {"const": {"a": [1, "x", None]}}),
    ("A constant text:", {"const": 'say "hi"\n\\'}),
    ("Some values:", enum("red", 6, None, True, {"k": 1}, [1, 2])),
    (
        "Text or number:",
        {"type": ["string", "integer"], "maxLength": 8, "maximum": 99, "minimum": 0},
    ),
    ("Maybe:", {"anyOf": [COUNT, {"const": "none"}]}),
    ("Either:", {"oneOf": [{"type": "string", "maxLength": 3}, COUNT]}),
    ("Both:", {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 8}]}),
    (
        "An open object:",
        {"type": "object", "properties": {"a": COUNT}, "required": ["a"], "maxProperties": 2},
    ),
    ("A map of counts:", {"type": "object", "additionalProperties": COUNT, "maxProperties": 3}),
    (
        "An x map:",
        {
            "type": "object",
            "patternProperties": {"^x[0-9]$": COUNT},
            "additionalProperties": False,
            "maxProperties": 2,
        },
    ),
    ("All optional:", obj({"a": FLAG, "b": FLAG, "c": FLAG}, "a", "b", "c")),
    ("Nothing in it:", obj({})),
    ("An empty list:", {"type": "array", "items": FLAG, "maxItems": 0}),
    ("Flags:", arr(FLAG, 2, 3)),
    (
        "A pair:",
        {"type": "array", "prefixItems": [FLAG, enum("u", "v")], "items": False, "minItems": 2},
    ),
    (
        "A pair and more:",
        {"type": "array", "prefixItems": [NAME], "items": COUNT, "minItems": 2, "maxItems": 3},
    ),
    ("Names with signs:", obj(dict.fromkeys(["foo\nbar", 'q"uote', "ключ", "", "a/b~c"], FLAG))),
    ("A definition:", obj({"x": ref("a~1b~0c")}, **{"$defs": {"a/b~c": FLAG}})),
    (
        "Definitions of definitions:",
        {"$defs": {"a": arr(ref("b")), "b": obj({"n": COUNT})}, **ref("a")},
    ),
    ("Old definitions:", {"definitions": {"n": COUNT}, "$ref": "#/definitions/n"}),
    ("Nested lists:", {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}),
    ("Deep:", obj({"a": obj({"b": obj({"c": obj({"d": obj({"e": FLAG})})})})})),
    ("A pattern inside:", {"type": "string", "pattern": "b+", "maxLength": 6}),
    ("A pattern of choices:", text("^(north|south)(east|west)?$")),
    ("Unicode:", text("^[α-ω]{1,8}$")),
    ("An emoji:", enum("😀", "😁", "🤖")),
    ("A phone number:", text(r"^\(\d{3}\) \d{3}-\d{4}$")),
    (
        "Version 4 or 6:",
        {"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]},
    ),
    ("Annotated:", {"title": "T", "description": "D", "default": 3, "examples": [4], **COUNT}),
    ("Draft 7:", {"$schema": "http://json-schema.org/draft-07/schema#", **obj({"a": COUNT})}),
    ("With an id:", {"$id": "https://example.com/s", **obj({"a": COUNT})}),
    (
        "A tagged union:",
        {"anyOf": [obj({"t": {"const": "a"}, "x": COUNT}), obj({"t": {"const": "b"}, "y": TEXT})]},
    ),
    ("An array of unions:", arr({"anyOf": [COUNT, FLAG, {"type": "null"}]}, 2, 4)),
    (
        "Required but not described:",
        {"type": "object", "required": ["k"], "additionalProperties": FLAG, "maxProperties": 1},
    ),
    ("A long enum:", enum(*(f"item {i}" for i in range(200)))),
    ("Many properties:", obj({f"p{i}": FLAG for i in range(12)})),
    ("An object of lists:", obj({"a": arr(COUNT, 0, 2), "b": arr(arr(FLAG, 0, 1), 0, 1)}, "b")),
]

SCHEMAS = RECORDS + FEATURES
