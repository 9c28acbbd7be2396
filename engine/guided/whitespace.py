"""White space between the tokens of guided JSON."""

from llguidance import regex_to_lark

DEFAULT = r"[ ]|\n[ \t]{0,12}"
"""Optional between any two tokens: a blank, or a new line with up to six levels of indentation.

It is bounded, so that a model can't fill its budget with blanks.
"""

# JSON in general, with white space wherever it may be. STRING may be laxer than JSON: what is
# inside of a string is the schema's business.
_LAYOUT = r"""
start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" WS (member ("," WS member)*)? "}"
member: STRING WS ":" WS value WS
array: "[" WS (value WS ("," WS value WS)*)? "]"
STRING: /"([^"\\]|\\.)*"/
NUMBER: /-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?/
"""


def layout(pattern: str) -> str:
    """A Lark grammar of JSON whose white space must match the pattern everywhere.

    llguidance takes white space as optional. A pattern that doesn't match the empty text asks for
    more than that, and this grammar, beside the schema's, is what enforces it.
    """
    return f"{_LAYOUT}WS: /{regex_to_lark(pattern, use_ascii='')}/\n"
