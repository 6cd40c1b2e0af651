"""The check that names say which thing they are: `python -m tests.vague_names`.

A variable or parameter that lives longer than a comprehension and is called `found` or `given` tells its reader only
that there is something. Each part of the repository has a budget of such names, which only falls.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = frozenset(
    (
        "alone", "among", "another", "asked", "begun", "both", "found", "given", "gone", "here", "kept", "mine", "one",
        "others", "own", "said", "seen", "some", "stood", "taken", "theirs", "there", "told", "wanted",
    )
)  # fmt: skip
BUDGET = {"core": 15, "runtime": 14, "operator": 4, "cli": 2, "images": 0, "bench": 0, "tests": 0}
"""Part of the repository -> how many there still are."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def vague(source: str) -> Iterator[tuple[int, str]]:
    """Lines that bind such a name, and the name."""
    tree = ast.parse(source)
    brief = {
        id(node)
        for comprehension in ast.walk(tree)
        if isinstance(comprehension, _COMPREHENSIONS)
        for node in ast.walk(comprehension)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if name in WORDS and id(node) not in brief:
            yield node.lineno, name


def places(part: str, root: Path = ROOT) -> list[str]:
    """All of a part: where, and which name."""
    return [
        f"{path.relative_to(root)}:{line}: {name}"
        for path in sorted((root / part).rglob("*.py"))
        for line, name in vague(path.read_text(encoding="utf-8"))
    ]


def main() -> int:
    """Say which part has more than its budget, or fewer, which is its budget from then on."""
    wrong = False
    for part, budget in BUDGET.items():
        bound = places(part)
        if len(bound) > budget:
            names = Counter(place.rpartition(" ")[2] for place in bound).most_common(5)
            lines = [*bound[:40], f"{part}: {len(bound)} names say not which thing they are, {budget} may: {names}"]
        else:
            lines = [f"{part}: only {len(bound)} are left; let BUDGET in tests/vague_names.py say so"]
        if len(bound) != budget:
            print(*lines, sep="\n", file=sys.stderr)  # noqa: T201
            wrong = True
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
