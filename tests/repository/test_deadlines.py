"""Nothing that tests wait for has a deadline that is the same on every machine (`tests/waiting.py`).

Looked for are waits with a number of seconds, and moments that are so many seconds away, unless `patience` gave them. A
number may be behind a constant, of the same module or of another one. Not looked at: pauses between two looks, and
limits of builds, which only end what hangs. A patience of the product that a test shortens is a deadline too where a
broker is to answer within it.
"""

import ast
import re
from collections.abc import Iterator, Mapping

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
"""Of calls by these names a `timeout` is a deadline."""
PLACED = frozenset({"join", "result", "wait"})
"""Of these the only argument is one too."""
BROKERS = frozenset({"broker", "shop"})
"""Fixtures with a broker that answers."""
LOOKED_INTO = re.compile(r"timeout=|monotonic\(|\.(?:join|result|wait)\(|__defaults__|PATIENCE")
"""Other modules wait for nothing, and need not be parsed."""
A_PAUSE, A_BUILD = 2, 300
"""Seconds from which on it is a deadline, and from which on a limit of what only hangs."""
EXEMPT = {
    "tests/api/test_leader.py": "the seconds of a hand-over are a promise of the product",
    "tests/cluster/diagnosis.py": "what does not answer soon is left out of what is said of a failure",
    "tests/engine/test_chores.py": "`wait` returns how long to wait",
    "tests/waiting.py": "is where deadlines are made",
}


def fixed(text: str, constants: Mapping[str, float]) -> Iterator[tuple[int, float]]:
    """Yield lines and seconds of deadlines that are the same everywhere; `constants`: of other modules."""
    tree = ast.parse(text)
    numbers = constants_of(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            numbers |= {name: constants[place] for name, place in names.items() if place in constants}
    for node in ast.walk(tree):
        for waited in _deadlines(node):
            seconds = numbers.get(waited.id) if isinstance(waited, ast.Name) else _number(waited)
            if seconds is not None and A_PAUSE <= seconds < A_BUILD:
                yield waited.lineno, seconds


def shortened(text: str) -> Iterator[int]:
    """Yield the lines in which a test gives a broker that answers a fixed number of seconds for it."""
    for test in ast.walk(ast.parse(text)):
        if isinstance(test, ast.FunctionDef) and BROKERS & {argument.arg for argument in test.args.args}:
            yield from (node.lineno for node in ast.walk(test) if isinstance(node, ast.Call) and _shortens(node))


def _shortens(call: ast.Call) -> bool:
    """Whether a call puts a number in place of a patience."""
    if _name(call.func) != "setattr":
        return False
    *places, value = call.args
    patience = any("PATIENCE" in ast.unparse(place) or "__defaults__" in ast.unparse(place) for place in places)
    return patience and any(_number(part) is not None for part in (getattr(value, "elts", None) or [value]))


def constants_of(text: str) -> dict[str, float]:
    """Return the numbers that a module names."""
    return {name: float(number) for name, number in re.findall(r"^(\w+)(?:: \w+)? = ([\d_.]+)$", text, re.MULTILINE)}


def _number(tree: ast.expr) -> float | None:
    value = tree.value if isinstance(tree, ast.Constant) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _deadlines(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that are seconds to wait."""
    if isinstance(node, ast.Call):
        name = _name(node.func)
        if name in WAITS:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "timeout")
        if name in PLACED and len(node.args) == 1:
            yield node.args[0]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_now(node.left):
        yield node.right
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE)) and _is_past(node.left):
        yield node.comparators[0]


def _name(tree: ast.expr) -> str | None:
    return getattr(tree, "attr", None) or getattr(tree, "id", None)


def _is_now(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Call) and _name(tree.func) == "monotonic"


def _is_past(tree: ast.expr) -> bool:
    return isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Sub) and _is_now(tree.left)


def test_no_deadline_is_the_same_on_every_machine() -> None:
    texts = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))
    }
    constants = {
        f"{'.'.join(path.with_suffix('').parts)}.{name}": number
        for path, text in texts.items()
        for name, number in constants_of(text).items()
    }
    assert [
        f"{path}:{line}: write patience({seconds:g})"
        for path, text in texts.items()
        if str(path) not in EXEMPT and LOOKED_INTO.search(text)
        for line, seconds in fixed(text, constants)
    ] == []
    assert [
        f"{path}:{line}: write patience(...) for the seconds in which the broker is to answer"
        for path, text in texts.items()
        if LOOKED_INTO.search(text)
        for line in shortened(text)
    ] == []


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
    assert LOOKED_INTO.search(text)
    assert [seconds for _, seconds in fixed(text, {"tests.other.LIMIT": 20})] == [20]


@pytest.mark.parametrize("text", ["process.wait(patience(20))", "waiting.wait(0.02)", "began = time.monotonic() - 20"])
def test_what_is_no_fixed_deadline_does_not(text: str) -> None:
    assert [*fixed(text, {})] == []


@pytest.mark.parametrize(("seconds", "lines"), [("(0.5,)", [2]), ("(patience(0.5),)", [])])
def test_a_broker_may_take_as_long_as_the_machine_needs(seconds: str, lines: list[int]) -> None:
    text = f'def test(broker, monkeypatch):\n    monkeypatch.setattr(Topics.__init__, "__defaults__", {seconds})'
    assert LOOKED_INTO.search(text)
    assert [*shortened(text)] == lines
    assert [*shortened(text.replace("broker", "address"))] == []
