import pytest

from engine.guided.backend import ConstraintError
from engine.guided.patterns import check_quantifiers, strip_anchors


@pytest.mark.parametrize(
    ("pattern", "quantifiers", "place"),
    [
        ("foo**", "**", 3),
        ("a{2}{3}", "{2}{3}", 1),
        ("[a]+*", "+*", 3),
        ("(a)++", "++", 3),
        ("a???", "???", 1),
        (r"\\**", "**", 2),
    ],
)
def test_quantifiers_of_quantifiers_are_refused(pattern, quantifiers, place):
    with pytest.raises(ConstraintError) as refusal:
        check_quantifiers(pattern, "here")
    assert refusal.value.message == f"here: multiple repeat {quantifiers!r} at character {place}"


@pytest.mark.parametrize(
    "pattern",
    ["a*?", "a{2,3}?", "a??", "[**]", r"\**", r"[\]**]", "(?:a)*", "(?P<n>a)+", "(?i)a", "[]*+]a"],
)
def test_what_only_looks_like_it_is_not(pattern):
    check_quantifiers(pattern, "here")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("^a$", "a"), ("a", "a"), (r"a\$", r"a\$"), (r"a\\$", r"a\\"), ("^^$$", ""), ("a^b", "a^b")],
)
def test_anchors_at_the_ends_are_dropped(pattern, expected):
    assert strip_anchors(pattern) == expected
