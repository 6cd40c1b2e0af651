"""The check that the name of a test has at most ten words: `python -m tests.long_names`.

It says the situation and what is expected. What it is about is said by the name of its file, and a consequence by the
test itself.
"""

import ast
import sys
from pathlib import Path

TESTS = Path(__file__).parent
WORDS = 10


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
    """Name the tests of such names."""
    names = [
        f"{path.relative_to(TESTS.parent)}:{line}: {name} has more than {WORDS} words"
        for path in sorted(TESTS.rglob("*.py"))
        for line, name in long_names(path.read_text(encoding="utf-8"))
    ]
    if names:
        print(*names, sep="\n", file=sys.stderr)  # noqa: T201
    return int(bool(names))


if __name__ == "__main__":
    sys.exit(main())
