"""Expressions that YAML cuts at a comma are put together, and the error says how they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_cli.plan.app_file import Document, documents_of


def document(text: str) -> Document:
    (only,) = documents_of(text, "app.yaml")
    return only


def messages(text: str) -> list[str]:
    return [error.message.rpartition(": ")[2] for error in document(text).errors]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("[k, coalesce(n, 0) AS n]", ['"coalesce(n, 0) AS n"']),
        ("[f(a, g(b, c), d), e]", ['"f(a, g(b, c), d)"']),
        ("{name: s, filter: n IN (1, 2), from: [a]}", ['"n IN (1, 2)"']),
        ('[f(a, b"c)]', ["'f(a, b\"c)'"]),
        (r"[split(a, \d)]", [r"'split(a, \d)'"]),
        ('["f(a, b)", c]', []),
        ("[count(*), b]", []),
        ("['f(a', b]", []),
        ("[f(a, [b], c)]", []),
        ("[f(a, b]", []),
        ("{a: f(b, c: d)}", []),
        ("{a: f(b), c: }", []),
        ("- f(a\n- b)", []),
    ],
)
def test_texts_that_a_comma_cuts_are_told(text: str, quoted: list[str]) -> None:
    assert messages(text) == quoted


@pytest.mark.parametrize("text", ["{a: b[0] = 1}", "{a: 'b' = c}", "['a' AS b]", "[f(a, 'b')]"])
def test_what_is_no_yaml_gets_a_hint(text: str) -> None:
    with pytest.raises(Exception, match="put a text with quotes, commas or brackets into quotes as a whole"):
        document(text)


calls = st.recursive(
    st.sampled_from(["a", "b + 1", "c IS NULL", "2"]),
    lambda inner: st.builds(
        lambda name, arguments: f"{name}({', '.join(arguments)})",
        st.sampled_from(["f", "coalesce", "x AND g", "b IN "]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


@given(st.lists(calls, min_size=1, max_size=4))
def test_any_expressions_are_read_as_they_were_meant(expressions: list[str]) -> None:
    cut = [expression for expression in expressions if "," in expression]
    listed = document(f"[{', '.join(expressions)}]")
    assert [str(item) for item in listed.tree] == expressions
    assert messages(f"[{', '.join(expressions)}]") == [f'"{expression}"' for expression in cut]
    named = {f"k{number}": expression for number, expression in enumerate(expressions)}
    mapped = document("{" + ", ".join(f"{name}: {expression}" for name, expression in named.items()) + "}")
    assert {name: str(value) for name, value in mapped.tree.items()} == named
    quoted = document("[" + ", ".join(f'"{expression}"' for expression in expressions) + "]")
    assert (quoted.tree, quoted.errors) == (expressions, [])
