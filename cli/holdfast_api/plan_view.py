"""A plan of an app as a notebook or a terminal shows it: what is refused, by which call, and the calls that cure it.

Shows errors of the spec too, so that a cell always shows something. Must not plan, judge or repair: the core does.
"""

import html
import json
import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.errors import safely
from holdfast.planning.picture.formats import draw
from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.planning.problems import Problem, Repair
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast.spec.rule_checks import FieldPath
from holdfast_api.draft import AppDraft, SourceLine

_INVALID = "InvalidSpec"


@dataclass(frozen=True, slots=True)
class PlanFinding:
    """A problem or a warning, and the call that it is about."""

    reason: str
    subject: str
    message: str
    line: SourceLine
    cure: str = ""

    def __str__(self) -> str:
        call = linecache.getline(self.line.file, self.line.line).strip()
        head = f"{self.reason} at {self.subject}" if self.subject else self.reason
        lines = [f"{head} ({self.line.shown})"]
        lines += [f"    {call}"] if call else []
        return "\n".join([*lines, f"  {self.message}", *(f"  {line}" for line in self.cure.splitlines())])


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan, or why there is none."""

    name: str
    app: StreamApp | None
    plan: Plan | None
    problems: tuple[PlanFinding, ...]
    warnings: tuple[PlanFinding, ...] = ()

    @classmethod
    def of(cls, draft: AppDraft, partitions: Mapping[str, int]) -> "PlanView":
        """Return the plan of a draft, with these partition counts."""
        tree = draft.tree()
        try:
            app = safely(lambda: parse_app(tree))
        except SpecInvalidError as invalid:
            errors = (
                PlanFinding(_INVALID, error.dotted, error.message, draft.line_of(error.path))
                for error in invalid.errors
            )
            return cls(draft.name, None, None, tuple(errors))
        planned = safely(lambda: plan(app, PlanningFacts(given=dict(partitions))))
        problems, warnings = (
            tuple(_finding(draft, app, problem) for problem in findings)
            for findings in (planned.problems, planned.warnings)
        )
        return cls(draft.name, app, planned, problems, warnings)

    @property
    def valid(self) -> bool:
        """Whether the app may run."""
        return not self.problems

    def __str__(self) -> str:
        parts = [str(finding) for finding in (*self.problems, *self.warnings)]
        return "\n".join([*parts, self._verdict()])

    def __repr__(self) -> str:
        return str(self)

    def _verdict(self) -> str:
        warned = f", warnings: {len(self.warnings)}" if self.warnings else ""
        if self.plan is None or not self.valid:
            return f"{self.name} is rejected: problems: {len(self.problems)}{warned}"
        return f"{self.name} is valid: steps: {len(self.plan.steps)}, tasks: {len(self.plan.tasks)}{warned}"

    def _repr_html_(self) -> str:
        findings = "".join(
            f'<pre style="border-left: 4px solid {color}; padding-left: 8px">{html.escape(str(finding))}</pre>'
            for color, listed in (("#c33", self.problems), ("#c90", self.warnings))
            for finding in listed
        )
        picture = draw("svg", self.plan, self.app) if self.valid and self.plan and self.app else ""
        return f"{findings}{picture}<p>{html.escape(self._verdict())}</p>"


def _finding(draft: AppDraft, app: StreamApp, problem: Problem) -> PlanFinding:
    cure = "" if problem.repair is None else python_repair(problem.repair)
    subject = problem.step or problem.stream or ""
    return PlanFinding(problem.reason.value, subject, problem.message, draft.line_of(_path(app, problem)), cure)


def _path(app: StreamApp, problem: Problem) -> FieldPath:
    """Return the path of the step, stream or table that a problem is about."""
    for kind, name in (("steps", problem.step), ("streams", problem.stream), ("tables", problem.stream)):
        for index, declared in enumerate(getattr(app.spec, kind)):
            if name is not None and declared.name == name:
                return ("spec", kind, index)
    return ()


def python_repair(repair: Repair) -> str:
    """Return a repair as changes of calls."""
    return "\n".join([f"repair: {repair.summary}", *(f"  {change}" for change in _changes(repair))])


def _changes(repair: Repair) -> Iterator[str]:
    for new in repair.new_steps:
        yield f"from {new.source}: .repartition(name={json.dumps(new.name)}, by={json.dumps(new.by)})"
    for rewire in repair.rewired:
        yield f"let {rewire.step} read {rewire.source} as its input {rewire.index + 1}"
    for name in repair.removed:
        yield f"remove {name}"
    for name in repair.broadcast_tables:
        yield f'table {name}: distribution="Broadcast"'
