"""StreamApps that somebody wrote, or a broken program made, to harm whoever reads them.

Two sources, each given by a seed alone: the kinds of `hostile_kinds`, and good apps changed at random. `hostile_apps`
gives those that an API server can be asked to take. Must not know what anybody makes of them.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from ruamel.yaml import YAML

from tests.spec.base_app import BASE, SMALL
from tests.spec.corpus import CASES
from tests.spec.hostile_kinds import KINDS, LARGEST, Kind, Tree, app
from tests.spec.hostile_sql import EXPRESSIONS, SCHEMAS

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def _good() -> tuple[Tree, ...]:
    yaml = YAML(typ="safe", pure=True)
    examples = (tree for path in sorted(EXAMPLES.glob("**/*.yaml")) for tree in yaml.load_all(path.read_text()))
    apps = [tree for tree in examples if isinstance(tree, dict) and tree.get("kind") == "StreamApp"]
    return (BASE, SMALL, *(case.tree for case in CASES if case.good), *json.loads(json.dumps(apps, default=str)))


def _holders(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder of the tree with a key or index in it."""
    todo = [node]
    while todo:
        holder = todo.pop()
        keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        for key in keys:
            yield holder, key
            if isinstance(holder[key], dict | list):
                todo.append(holder[key])


_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**63, -(10**400), 1e308, "", " ", "x", "\u202e", "\ud800", "\x00", "\U0001f600" * 9,
    "x" * 5_000, "9" * 5_000, "1" * 5_000 + "h", "Claim", "clicks", "k", "*", "a < ARRAY<INT>", "{{", "'", "`", "/*",
    [], {}, [None], [[]], {"": None}, {"name": None}, ["a"] * 300, [{}] * 300,
)  # fmt: skip


def _mutated(chance: Random) -> tuple[str, Tree]:
    tree: Tree = deepcopy(chance.choice(_good()))
    changes = []
    for _ in range(chance.choice((1, 2, 3, 8))):
        change = chance.choice((_replaced, _repeated, _moved, _renamed, _torn))
        holder, key = chance.choice(list(_holders(tree)))
        change(chance, tree, holder, key)
        changes.append(f"{change.__name__.strip('_')} {str(key)[:20]!a}")
        if not tree:
            break
    return f"mutated: {', '.join(changes)}", tree


def _replaced(chance: Random, _: Tree, holder: Any, key: Any) -> None:
    value = chance.choice(_VALUES)
    if chance.random() < 0.3:
        value = chance.choice(list(EXPRESSIONS.values()) + list(SCHEMAS.values()))(chance.choice((30, 3_000)))
    holder[key] = deepcopy(value)


def _repeated(chance: Random, _: Tree, holder: Any, key: Any) -> None:
    value = holder[key]
    times = chance.choice((2, 20, 300))
    if isinstance(value, list) and len(json.dumps(value)) * times < LARGEST:
        holder[key] = [deepcopy(item) for item in value * times]
    elif isinstance(value, str) and len(value) * times < LARGEST // 4:
        holder[key] = value * times


def _moved(chance: Random, tree: Tree, holder: Any, key: Any) -> None:
    """Something of this tree, or of another, in its place."""
    other = tree if chance.random() < 0.5 else chance.choice(_good())
    source, at = chance.choice(list(_holders(other)))
    holder[key] = deepcopy(source[at])


def _renamed(chance: Random, _: Tree, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[chance.choice(("name", "from", "on", "true", "select", str(key).upper(), "\x00", "x" * 300))] = (
            holder.pop(key)
        )


def _torn(_: Random, __: Tree, holder: Any, key: Any) -> None:
    del holder[key]


def generated(seed: int) -> tuple[str, Tree]:
    """What it is, and the tree; whatever a parser of YAML or JSON may hand on."""
    chance = Random(seed)  # noqa: S311 - the same trees at each run
    if chance.random() < 0.5:
        return _mutated(chance)
    name = chance.choice(tuple(KINDS))
    return name, KINDS[name](chance)


def hostile_apps(count: int, seed: int) -> list[Tree]:
    """Objects that can be sent to an API server: of all kinds in turn, each a StreamApp of its own name.

    What their spec is may still be refused.
    """
    chance = Random(seed)  # noqa: S311 - the same apps at each run
    kinds: list[Kind | None] = [*KINDS.values(), *[None] * (len(KINDS) // 2)]
    chance.shuffle(kinds)
    apps: list[Tree] = []
    for kind in cycle(kinds):
        tree = _sendable(_mutated(chance)[1] if kind is None else kind(chance), f"hostile-{seed}-{len(apps)}")
        apps += [] if tree is None else [tree]
        if len(apps) == count:
            break
    return apps


def _sendable(tree: Tree, name: str) -> Tree | None:
    """The spec under a name that is one; none where no JSON of bearable size holds it."""
    sent: Tree = app() | {"metadata": {"name": name}, "spec": tree.get("spec")}
    try:
        size = len(json.dumps(sent, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        return None  # half a pair of surrogates, a number without end, deeper than any parser goes
    return sent if size <= LARGEST and isinstance(sent["spec"], dict) else None
