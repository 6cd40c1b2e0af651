"""The repaired file of `holdfast plan --fix`: the user's YAML with its comments and the repairs written into it.

A file whose anchors would copy a repair to other places is refused rather than changed wrongly. Must not decide what to
repair.
"""

import copy
import sys
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from holdfast.errors import UserActionError
from holdfast.planning.plan import PlanningFacts, RepairedApp, apply_all_repairs, plan
from holdfast.planning.problems import Problem, Repair
from holdfast.spec.app import StreamApp
from holdfast_cli.output.yaml_text import OTHER_IN_YAML_1_1
from holdfast_cli.plan.app_file import AppFile
from holdfast_cli.plan.python_app import is_python
from holdfast_cli.plan.rewritten import rewritten_text

_REJECTED = 1


def fix(file: AppFile, app: StreamApp, facts: PlanningFacts) -> int:
    """Print the repaired file; report on stderr what was repaired and what is left. Return the exit code."""
    if is_python(file.path):
        message = f"{file.path} is Python, which --fix does not rewrite: holdfast plan says which calls to change"
        raise UserActionError(message, code="RepairUnwritableError")
    repaired = apply_all_repairs(app, facts)
    text = file.text
    if repaired.repairs:
        text = repaired_text(file, repaired)
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


def repaired_text(file: AppFile, repaired: RepairedApp) -> str:
    """Return the file with the repairs; everything else stays as written."""

    def write_into(spec: Any) -> None:
        for repair in repaired.repairs:
            _write_into(spec, repair)

    return rewritten_text(file, write_into, repaired.app, "paste the repairs that holdfast plan shows")


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
