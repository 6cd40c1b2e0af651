"""The repaired file of `holdfast plan --fix`: the user's YAML with its comments and the repairs written into it.

A file whose anchors would copy a repair to other places is refused rather than changed wrongly. Must not decide what to
repair.
"""

import copy
import io
import sys
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from holdfast.errors import UserActionError
from holdfast.planning.plan import PlanningFacts, apply_all_repairs, plan
from holdfast.planning.problems import Problem, Repair
from holdfast.spec.app import StreamApp
from holdfast.spec.diff import diff
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast_cli.output.yaml_text import OTHER_IN_YAML_1_1
from holdfast_cli.plan.app_file import AppFile, FileUnreadableError, app_document

_REJECTED = 1
_KIND = "StreamApp"


def fix(file: AppFile, app: StreamApp, facts: PlanningFacts) -> int:
    """Print the repaired file; report on stderr what was repaired and what is left. Return the exit code."""
    repaired = apply_all_repairs(app, facts)
    text = file.text
    if repaired.repairs:
        text = repaired_text(file, repaired.repairs)
        _check(file, text, repaired.app)
    for repair in repaired.repairs:
        _say(f"repaired: {repair.summary}")
    for problem in repaired.plan.problems:
        _say(f"left: {_finding(problem)}")
    known_before = {warning.order for warning in plan(app, facts).warnings}
    for warning in repaired.plan.warnings:
        if warning.order not in known_before:
            _say(f"warning: {_finding(warning)}")
    sys.stdout.write(text)
    return 0 if repaired.plan.valid else _REJECTED


def repaired_text(file: AppFile, repairs: tuple[Repair, ...]) -> str:
    """Return the file with the repairs; everything else stays as written."""
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 10_000
    offset = _list_offset(file)
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    documents = _documents(yaml, file)
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == _KIND:
            for repair in repairs:
                _write_into(document["spec"], repair)
    out = io.StringIO()
    yaml.dump_all(documents, out)
    return out.getvalue()


def _documents(yaml: YAML, file: AppFile) -> list[Any]:
    """Return all documents, not only the app: all are printed, and none may lose anything."""
    try:
        return list(yaml.load_all(file.text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        address = f"{file.path}:{mark.line + 1}:{mark.column + 1}" if mark else file.path
        what = (error.problem or error.context or "not YAML").splitlines()[0]
        message = f"{address}: {what}; the file can't be rewritten without loss; correct this first"
        raise UserActionError(message, code="RepairUnwritableError") from error
    except (YAMLError, RecursionError, ValueError) as error:
        message = f"{file.path} can't be rewritten without loss: {error}"
        raise UserActionError(message, code="RepairUnwritableError") from error


def _check(file: AppFile, text: str, app: StreamApp) -> None:
    """Raise unless the text parses to the repaired app: an alias can copy a change to unintended places."""
    try:
        document = app_document(text, file.path)
        changes = () if document.errors else diff(app, parse_app(document.tree)).changes
        wrong = [error.dotted for error in document.errors] + [change.path for change in changes]
    except (FileUnreadableError, SpecInvalidError) as error:
        wrong = [str(error)]
    if wrong:
        message = (
            f"{file.path}: the file's anchors can't be kept, with the repairs {wrong[0]} would be wrong; "
            f"write out what its aliases stand for, or paste the repairs that holdfast plan shows"
        )
        raise UserActionError(message, code="RepairUnwritableError")


def _list_offset(file: AppFile) -> int:
    """Return how far the file indents list dashes below their key."""
    key, item = file.document.mark(("spec", "steps")), file.document.mark(("spec", "steps", 0))
    return max(0, item.column - key.column - 2) if item.line > key.line else 0


def _write_into(spec: Any, repair: Repair) -> None:
    steps = spec["steps"]
    for rewire in repair.rewired:
        step = next(step for step in steps if step["name"] == rewire.step)
        inputs = _own_copy(step["from"])
        inputs[rewire.index] = _flow(rewire.source)
        step["from"] = inputs
    for new in repair.new_steps:
        reader = next(i for i, step in enumerate(steps) if new.name in step["from"])
        steps.insert(reader, _flow({"name": new.name, "from": [new.source], "repartition": {"by": list(new.by)}}))
    for name in repair.removed:
        steps.remove(next(step for step in steps if step["name"] == name))
    for table in spec.get("tables") or ():
        if table["name"] in repair.broadcast_tables:
            table["distribution"] = "Broadcast"


def _own_copy(written: CommentedSeq) -> CommentedSeq:
    """Return a copy of the list with style and comments but no anchor, so that aliases keep their meaning."""
    # The items are not copied: a copy would repeat its anchor where it was an alias.
    list_copy = copy.deepcopy(written, {id(item): item for item in written})
    list_copy.anchor.value = None
    return list_copy


def _flow(tree: Any) -> Any:
    """Return the tree in YAML's one-line style."""
    if isinstance(tree, dict):
        mapping = CommentedMap({key: _flow(value) for key, value in tree.items()})
        mapping.fa.set_flow_style()
        return mapping
    if isinstance(tree, list):
        items = CommentedSeq([_flow(item) for item in tree])
        items.fa.set_flow_style()
        return items
    if isinstance(tree, str) and OTHER_IN_YAML_1_1.fullmatch(tree):
        return SingleQuotedScalarString(tree)
    return tree


def _finding(problem: Problem) -> str:
    subject = problem.step or problem.stream
    return f"{problem.reason}{f' at {subject}' if subject else ''}: {problem.message}"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
