"""Whatever an app's tree holds is read from its YAML again."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast_api.yaml_layout import as_yaml
from holdfast_cli.plan.app_file import documents_of

NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name != "<<")
"""Which merges, however it is quoted."""
ODD = ["yes", "12:30", "1e3", "a: b", "x #", "~", "\x85", "def f():\n    return 1\n", "\n", " a\n", "a\n\n b\n"]
TEXTS = st.one_of(st.text(), st.sampled_from(ODD))
SCALARS = st.one_of(TEXTS, st.integers(-(10**9), 10**9), st.booleans())
TREES = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3))
    ),
    min_size=1,
    max_size=4,
)


@given(TREES)
def test_a_tree_comes_back(tree: dict[str, Any]) -> None:
    (document,) = documents_of(as_yaml(tree), "app.yaml")
    assert document.tree == tree
    assert document.errors == []
