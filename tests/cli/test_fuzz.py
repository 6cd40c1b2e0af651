"""Invariant 5: no file whatever raises anything but our own errors: arbitrary YAML trees through load and plan."""

import json
import os
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.planning.plan import PlanningFacts, apply_all_repairs, plan
from holdfast.planning.plan_json import plan_json
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast_cli.plan.app_file import app_document
from tests.planning.specs import app_tree, specs

RUNS = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 300
WORDS = [
    "k",
    "j",
    "v",
    "ts",
    "s0",
    "s1",
    "x0",
    "x1",
    "t0",
    "out",
    "log",
    "on",
    "true",
    "10m",
    "",
    "0s",
    "-1",
    "left.k",
    "*",
]
SCALARS = st.one_of(
    st.sampled_from(WORDS),
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(),
    st.text(max_size=12),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)),
    max_leaves=6,
)


def loads_and_plans(text: str) -> None:
    """What `holdfast plan` does with a file; whatever it can't take must end in one of our errors."""
    try:
        app = parse_app(app_document(text, "app.yaml").tree)
    except SpecInvalidError as error:
        assert all(one.message and one.dotted for one in error.errors)
        return
    except HoldfastError as error:
        assert str(error)
        return
    result = plan(app)
    json.dumps(plan_json(result))
    if not result.valid:
        apply_all_repairs(app, PlanningFacts())


def mutated(tree: Any, pick: random.Random, other: Any) -> Any:
    """The tree with one node somewhere replaced, removed, doubled or renamed."""
    if isinstance(tree, dict) and tree and pick.random() < 0.85:
        key = pick.choice(sorted(tree, key=str))
        if pick.random() < 0.15:
            changed = {name: value for name, value in tree.items() if name != key}
            return changed if pick.random() < 0.5 else {**changed, pick.choice(WORDS): tree[key]}
        return {**tree, key: mutated(tree[key], pick, other)}
    if isinstance(tree, list) and tree and pick.random() < 0.85:
        index = pick.randrange(len(tree))
        if pick.random() < 0.15:
            return [*tree, tree[index]] if pick.random() < 0.5 else [*tree[:index], *tree[index + 1 :]]
        return [*tree[:index], mutated(tree[index], pick, other), *tree[index + 1 :]]
    return other


@settings(max_examples=RUNS)
@given(specs(), st.randoms(use_true_random=False), st.lists(TREES, min_size=1, max_size=3))
def test_no_tree_raises_anything_but_our_errors(spec: dict[str, Any], pick: random.Random, trees: list[Any]) -> None:
    tree: Any = app_tree(spec)
    for other in trees:
        tree = mutated(tree, pick, other)
    loads_and_plans(json.dumps(tree))


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_no_text_raises_anything_but_our_errors(text: str) -> None:
    loads_and_plans(text)


@given(st.text(alphabet="{}[]:,-&*!|>'\"%@` \n\tabon123~?#", max_size=60))
def test_no_yaml_syntax_raises_anything_but_our_errors(text: str) -> None:
    loads_and_plans(text)


def test_an_anchor_bomb_is_refused_and_not_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    loads_and_plans("\n".join(lines))


def test_a_deep_tree_is_refused() -> None:
    loads_and_plans("[" * 5_000)
    loads_and_plans("kind: StreamApp\nspec: " + "{a: " * 400 + "1" + "}" * 400)
