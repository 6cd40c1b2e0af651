"""The check that the name of a test has at most ten words: `python -m tests.long_names`.

It says the situation and what is expected. What it is about is said by the name of its file, and a consequence by the
test itself. Each folder of tests has a budget of longer names, which only falls.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent
WORDS = 10
BUDGET = {
    "operator": 192, "pipelines": 1, "placement": 59, "planning": 93, "repository": 2, "s3": 32, "segments": 23,
    "simulation": 13, "spec": 16, "state": 59, "steps": 64, "streams": 22, "tables": 14, "tasks": 9,
}  # fmt: skip
"""Folder -> how many there still are; none in all others."""


def long_names(source: str) -> list[tuple[int, str]]:
    """Lines that define a test of such a name, and the name."""
    return [
        (node.lineno, node.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") > WORDS
    ]


def main() -> int:
    """Say which folder has more than its budget, or fewer, which is its budget from then on."""
    places = defaultdict(list)
    for path in sorted(TESTS.rglob("*.py")):
        for line, name in long_names(path.read_text(encoding="utf-8")):
            places[path.relative_to(TESTS).parts[0]].append(f"{path.relative_to(TESTS.parent)}:{line}: {name}")
    wrong = [folder for folder in sorted({*BUDGET, *places}) if len(places[folder]) != BUDGET.get(folder, 0)]
    for folder in wrong:
        verdict = f"{folder}: {len(places[folder])} names of more than {WORDS} words, {BUDGET.get(folder, 0)} may be"
        print(*places[folder][:40], verdict, sep="\n", file=sys.stderr)  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
