"""Problems of a plan and their repairs, as values: reason, step, numbers, paths, and what to change in the spec.

A warning is a `Problem` too, in another list. A repair can be read, pasted and applied. The number and length of
problems shown is limited, since the operator plans specs of any user. Must not print, nor choose a repair:
`repair_search` does.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.errors import UserActionError
from holdfast.one_line import printable
from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec
from holdfast.spec.steps import Repartition, Step

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*|([0-9]+(ms|h|m|s))+")
_RESERVED = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}


@dataclass(frozen=True, slots=True, order=True)
class NewStep:
    """A repartition step to insert."""

    name: str
    source: str
    by: tuple[str, ...]

    def step(self) -> Step:
        """Return it as a `Step` of the spec."""
        return Step(name=self.name, inputs=(self.source,), repartition=Repartition(by=self.by))


@dataclass(frozen=True, slots=True, order=True)
class Rewire:
    """A changed input of a step: input `index` now reads `source`."""

    step: str
    index: int
    source: str


@dataclass(frozen=True, slots=True)
class Repair:
    """Changes to a spec that solve a problem."""

    summary: str
    """`repartition clicks by ad_id into 16`."""
    new_steps: tuple[NewStep, ...] = ()
    rewired: tuple[Rewire, ...] = ()
    removed: tuple[str, ...] = ()
    """Steps that nothing reads any more after the rewiring."""
    broadcast_tables: tuple[str, ...] = ()
    yaml: str = ""
    """The new and changed objects, to paste into the spec."""


def apply_repair(spec: AppSpec, repair: Repair) -> AppSpec:
    """Return the spec with the repair applied; new steps are placed before the first step that reads them."""
    steps: list[Step] = []
    waiting = {new.name: new for new in repair.new_steps}
    for step in spec.steps:
        inputs = list(step.inputs)
        for rewire in repair.rewired:
            if rewire.step == step.name:
                inputs[rewire.index] = rewire.source
        if step.name in repair.removed:
            continue
        steps += [waiting.pop(name).step() for name in dict.fromkeys(inputs) if name in waiting]
        steps.append(step if tuple(inputs) == step.inputs else step.model_copy(update={"inputs": tuple(inputs)}))
    tables = tuple(
        table.model_copy(update={"distribution": "Broadcast"}) if table.name in repair.broadcast_tables else table
        for table in spec.tables
    )
    return spec.model_copy(update={"steps": tuple(steps), "tables": tables})


def repair_yaml(spec: AppSpec, repair: Repair) -> str:
    """Return the new and changed objects as YAML, under the lists they belong to."""
    repaired = apply_repair(spec, repair)
    steps = {step.name: step for step in repaired.steps}
    # Sorted by name: the order of the spec file must not show in a plan.
    touched = [*sorted(new.name for new in repair.new_steps), *sorted({rewire.step for rewire in repair.rewired})]
    lines = [f"# {repair.summary}"]
    if touched:
        lines.append("steps:")
        lines += [f"- {inline_yaml(_written(steps[name]))}" for name in dict.fromkeys(touched) if name in steps]
        lines += [f"# and remove step {name}" for name in repair.removed]
    if repair.broadcast_tables:
        lines.append("tables:")
        lines += [
            f"- {inline_yaml(_written(table))}" for table in repaired.tables if table.name in repair.broadcast_tables
        ]
    return "\n".join(lines)


def _written(model: Any) -> Any:
    """The fields as a user would write them, without defaults."""
    fields = model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    fields.setdefault("name", model.name)
    return dict(
        sorted(fields.items(), key=lambda item: ("name", "from").index(item[0]) if item[0] in ("name", "from") else 2)
    )


def inline_yaml(value: object) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{inline_yaml(key)}: {inline_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(inline_yaml(item) for item in value) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    text = json.dumps(value, ensure_ascii=False)
    # YAML takes some of these for ends of lines, and refuses others.
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)


@dataclass(frozen=True, slots=True)
class StreamCount:
    """A stream of a join set with its partition count and the origin of that count."""

    name: str
    partitions: int
    how: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a plan, or (as a warning) worth knowing."""

    reason: Reason
    message: str
    step: str | None = None
    """The step where it was found."""
    stream: str | None = None
    """The stream or table where it was found, if not a step."""
    field: str | None = None
    """The field of the spec whose change is the problem, if one is: `spec.steps[counts].aggregate.window`."""
    streams: tuple[StreamCount, ...] = ()
    """The streams of the step's join set, sorted by name."""
    paths: tuple[tuple[str, ...], ...] = ()
    """How each of these streams reaches the step: names from the stream on, tables as `table T`."""
    repair: Repair | None = None

    @property
    def order(self) -> tuple[str, str, str, str]:
        """The sort key: step or stream, then reason, so that the order of the spec file does not matter."""
        return (self.step or "", self.stream or "", self.reason.value, self.message)


def shown_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems to show, sorted: limited in number and length, without terminal control characters."""
    ordered = sorted(problems, key=lambda problem: problem.order)
    shown = [replace(problem, message=_shown(problem.message)) for problem in ordered[:MOST_PROBLEMS]]
    if len(ordered) > MOST_PROBLEMS:
        last = ordered[MOST_PROBLEMS]
        message = f"and {len(ordered) - MOST_PROBLEMS} more like these; they are told when these are mended"
        shown.append(Problem(last.reason, message, step=last.step, stream=last.stream))
    return tuple(shown)


def _shown(message: str) -> str:
    short = message if len(message) <= MOST_LETTERS else f"{message[:MOST_LETTERS]}..."
    return short if short.isprintable() else "".join(x if _harmless(x) else " " for x in short)


def _harmless(letter: str) -> bool:
    """Whether a character may be shown. A lone surrogate may: code that prints or sends it escapes it."""
    return letter.isprintable() or letter == "\n" or "\ud800" <= letter <= "\udfff"


MOST_PROBLEMS = 500
"""Most problems shown of one app: more than these usually have one cause."""
MOST_LETTERS = 4_000
"""Most characters shown of one problem's message."""


SHOWN_NAMES = 12
SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class SqlFinding:
    """One thing that is wrong with a text, and what to do about it; whoever reads the text adds where it stands."""

    reason: Reason
    message: str


class ExpressionError(UserActionError):
    """A text of the spec that can't be used; `findings` say why."""

    def __init__(self, *findings: SqlFinding) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = findings


def excerpt(text: str) -> str:
    """Return the text for a message: one line of printable characters, cut if long."""
    line = printable(text[: SHOWN_CHARACTERS + 1])
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}..."


def listed(names: Iterable[str]) -> str:
    """Return `a, b, c`; of a long list the first names and how many more there are."""
    unique_names = list(dict.fromkeys(names))
    more = len(unique_names) - SHOWN_NAMES
    return ", ".join(unique_names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
