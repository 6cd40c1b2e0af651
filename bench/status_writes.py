"""What a write of a StreamApp's status costs the API server: its own validation of the object, rules and all.

For each example app, `python -m bench.status_writes [--writes N]`: the program that tests ask what the API server would
say (`tests.crd`) judges the app put in its own place N times, as happens when only the status is written. Milliseconds
of CPU each, less what the program needs to start.
"""

import argparse
import resource
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.crd.harness import Question, ask

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_METADATA = {"namespace": "default", "resourceVersion": "1", "uid": "1"}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.status_writes", description=__doc__.partition("\n")[0])
    parser.add_argument("--writes", type=int, default=300, help="how many of each app (default: 300)")
    writes = parser.parse_args().writes
    start = _cpu_seconds([])
    print(f"{'app':24} {'steps':>5} {'streams':>7} {'ms a write':>10}")
    for path in sorted(EXAMPLES.glob("*/app.yaml")):
        app = YAML(typ="safe").load(path)
        app["metadata"] |= _METADATA
        spent = _cpu_seconds([Question(str(number), app, app) for number in range(writes)]) - start
        spec = app["spec"]
        print(f"{path.parent.name:24} {len(spec['steps']):5} {len(spec['streams']):7} {1e3 * spent / writes:10.1f}")


def _cpu_seconds(questions: list[Question]) -> float:
    before = _children()
    refused = [name for name, answer in ask(questions).answers.items() if not answer.valid]
    if refused:
        message = f"the API server refuses writes {refused[:3]}"
        raise SystemExit(message)
    return _children() - before


def _children() -> float:
    used: Any = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    main()
