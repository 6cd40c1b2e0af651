"""Why: `holdfast plan --fix`: the user's own file, comments and all, with the repairs written into it.

Must not decide what to repair.
"""

import io
import sys
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from holdfast.planning.fixing import fixed
from holdfast.planning.plan import Known
from holdfast.planning.repairs import Repair
from holdfast.spec.app import StreamApp
from holdfast_cli.app_file import AppFile

_REJECTED = 1
_KIND = "StreamApp"


def fix(file: AppFile, app: StreamApp, known: Known) -> int:
    """Print the repaired file; say on standard error what was done and what is left."""
    result = fixed(app, known)
    for repair in result.repairs:
        _say(f"repaired: {repair.summary}")
    for problem in result.plan.problems:
        _say(f"left: {problem.reason} at {problem.step or problem.stream}: {problem.message}")
    sys.stdout.write(repaired_text(file, result.repairs) if result.repairs else file.text)
    return 0 if result.plan.valid else _REJECTED


def repaired_text(file: AppFile, repairs: tuple[Repair, ...]) -> str:
    """The file with the repairs in it; everything else stays as it was written."""
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 10_000
    offset = _list_offset(file)
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    documents = list(yaml.load_all(file.text))
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == _KIND:
            for repair in repairs:
                _write_into(document["spec"], repair)
    out = io.StringIO()
    yaml.dump_all(documents, out)
    return out.getvalue()


def _list_offset(file: AppFile) -> int:
    """How far the file puts the dash of a list behind the key above it."""
    key, item = file.document.place(("spec", "steps")), file.document.place(("spec", "steps", 0))
    return max(0, item.column - key.column - 2) if item.line > key.line else 0


def _write_into(spec: Any, repair: Repair) -> None:
    steps = spec["steps"]
    for rewire in repair.rewired:
        step = next(step for step in steps if step["name"] == rewire.step)
        step["from"][rewire.index] = rewire.source
    for new in repair.new_steps:
        reader = next(i for i, step in enumerate(steps) if new.name in step["from"])
        steps.insert(reader, _flow({"name": new.name, "from": [new.source], "repartition": {"by": list(new.by)}}))
    for name in repair.removed:
        steps.remove(next(step for step in steps if step["name"] == name))
    for table in spec.get("tables", ()):
        if table["name"] in repair.broadcast_tables:
            table["distribution"] = "Broadcast"


def _flow(tree: Any) -> Any:
    """The tree in YAML's one-line style."""
    if isinstance(tree, dict):
        made = CommentedMap({key: _flow(value) for key, value in tree.items()})
        made.fa.set_flow_style()
        return made
    if isinstance(tree, list):
        items = CommentedSeq([_flow(item) for item in tree])
        items.fa.set_flow_style()
        return items
    return tree


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
