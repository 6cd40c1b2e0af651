"""Nothing that tests wait for has a deadline that is the same on every machine (`tests/waiting.py`).

Looked for are waits with a number of seconds, and moments that are so many seconds away, unless `patience` gave them. A
number may be behind a constant, of the same module or of another one. Not looked at: pauses between two looks, and
limits of builds, which only end what hangs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

WAITS = frozenset(
    [
        "HTTPConnection",
        "acquire",
        "check_call",
        "check_output",
        "communicate",
        "get",
        "join",
        "list_topics",
        "post",
        "request",
        "result",
        "run",
        "urlopen",
        "wait",
    ]
)
"""Of these a `timeout` counts, and of the last words the only argument too."""
PLACED = frozenset({"join", "result", "wait"})
A_PAUSE, A_BUILD = 2, 300
"""Seconds from which on it is a deadline, and from which on a limit of what only hangs."""
EXEMPT = {
    "tests/cluster/diagnosis.py": "what does not answer soon is left out of what is said of a failure",
    "tests/engine/test_chores.py": "`wait` returns how long to wait",
    "tests/waiting.py": "is where deadlines are made",
}


def _number(tree: ast.expr | None) -> float | None:
    value = tree.value if isinstance(tree, ast.Constant) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


class Module:
    """What a module of the tests waits for."""

    def __init__(self, text: str, constants: dict[str, float]) -> None:
        """`constants`: numbers of other modules, by module and name."""
        self.tree = ast.parse(text)
        self.numbers = {
            alias.asname or alias.name: constants[f"{node.module}.{alias.name}"]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if f"{node.module}.{alias.name}" in constants
        } | constants_of(self.tree)

    def fixed(self) -> Iterator[tuple[int, float]]:
        """Return lines and seconds of deadlines that are the same everywhere."""
        for node in ast.walk(self.tree):
            for seconds in filter(None, map(self._seconds, _deadlines(node))):
                if A_PAUSE <= seconds < A_BUILD:
                    yield node.lineno, seconds  # type: ignore[attr-defined] # calls, sums and comparisons have one

    def _seconds(self, tree: ast.expr) -> float | None:
        return self.numbers.get(tree.id) if isinstance(tree, ast.Name) else _number(tree)


def constants_of(tree: ast.Module) -> dict[str, float]:
    """Return the numbers that a module names."""
    pairs = [(node.targets[0], node.value) for node in tree.body if isinstance(node, ast.Assign)]
    return {
        target.id: number
        for target, value in pairs
        if isinstance(target, ast.Name) and (number := _number(value)) is not None
    }


def _deadlines(node: ast.AST) -> Iterator[ast.expr]:
    """Return the expressions that are seconds to wait."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        if name in WAITS:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "timeout")
        if name in PLACED and len(node.args) == 1:
            yield node.args[0]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_now(node.left):
        yield node.right
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE)) and _is_past(node.left):
        yield node.comparators[0]


def _is_now(tree: ast.expr) -> bool:
    return ast.unparse(tree) == "time.monotonic()"


def _is_past(tree: ast.expr) -> bool:
    return isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Sub) and _is_now(tree.left)


def _modules() -> dict[str, str]:
    files = sorted((ROOT / "tests").rglob("*.py"))
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


def test_no_deadline_is_the_same_on_every_machine() -> None:
    texts = _modules()
    constants = {
        f"{'.'.join(Path(path).with_suffix('').parts)}.{name}": number
        for path, text in texts.items()
        for name, number in constants_of(ast.parse(text)).items()
    }
    fixed = [
        f"{path}:{line}: {seconds:g} s: write patience({seconds:g})"
        for path, text in texts.items()
        if path not in EXEMPT
        for line, seconds in Module(text, constants).fixed()
    ]
    assert fixed == []


@pytest.mark.parametrize(
    "text",
    [
        "process.wait(20)",
        "subprocess.run(command, timeout=20.0)",
        "LIMIT = 20\nthread.join(LIMIT)",
        "deadline = time.monotonic() + 20",
        "assert time.monotonic() - began < 20",
        "from tests.other import LIMIT\nfuture.result(LIMIT)",
    ],
)
def test_a_fixed_deadline_shows(text: str) -> None:
    assert [seconds for _, seconds in Module(text, {"tests.other.LIMIT": 20}).fixed()] == [20]


@pytest.mark.parametrize("text", ["process.wait(patience(20))", "waiting.wait(0.02)", "began = time.monotonic() - 20"])
def test_what_is_no_fixed_deadline_does_not(text: str) -> None:
    assert [*Module(text, {}).fixed()] == []
