"""The check that a public class name means one thing in the whole product: `python -m tests.class_names`.

Two classes of one name need an alias wherever both are imported, and a reader has to find out which one is meant.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "core/holdfast",
    "runtime/holdfast_runtime",
    "operator/holdfast_operator",
    "cli/holdfast_api",
    "cli/holdfast_cli",
)


def doubles(root: Path = ROOT) -> dict[str, list[str]]:
    """Public class names that several modules define, and where."""
    places = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    return {name: definitions for name, definitions in sorted(places.items()) if len(definitions) > 1}


def main() -> int:
    """Say which, and that one of them needs another name."""
    repeated = doubles()
    for name, places in repeated.items():
        print(f"{name} is defined in {' and in '.join(places)}: give one a name of its own", file=sys.stderr)  # noqa: T201
    return 1 if repeated else 0


if __name__ == "__main__":
    sys.exit(main())
