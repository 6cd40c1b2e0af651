"""The state that steps keep between batches, by name: what a run remembers of its app, and what a change does to it.

State belongs to a name. Under another name a step starts from nothing, so a rename is either said in the spec
(`was`) or refused; a name that is gone is given up, and taken up again only where the spec says so. Pure; must not
know how state is stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.spec.edits import edits, held_path, read_before, step_path, table_paths
from holdfast.spec.kept_streams import StreamNames, kept_spec
from holdfast.spec.partial_aggregates import partial_aggregates

if TYPE_CHECKING:
    from holdfast.spec.app import AppSpec
    from holdfast.spec.steps import Step


TABLE = "toTable"
"""What writers of a table keep."""


def state_name(step: "Step") -> str:
    """The name its state is kept under. Writers of one table share that of the table."""
    return table_name(step.to_table) if step.to_table is not None else step.was or step.name


def table_name(table: str) -> str:
    """The name the rows of a table are kept under: no step can have it."""
    return f"{table}{_OF_TABLES}"


_OF_TABLES = ".table"


def _makers(name: str) -> tuple[str, str]:
    """What `made_by` calls what makes the state of this name, and what the types of that are called."""
    if name.endswith(_OF_TABLES):
        return table_paths(name.removesuffix(_OF_TABLES))
    return step_path(name), held_path(name)


def row_tables(step: "Step") -> dict[str, str]:
    """Where a step keeps rows and not a state by key: what people call it -> the name of the state table."""
    if step.join is not None:
        return {f"{step.name}.{side}": f"{state_name(step)}.{side}" for side in ("left", "right")}
    in_columns = step.process is not None and step.process.form == "Batch"
    return {step.name: state_name(step)} if step.deduplicate or step.aggregate or in_columns else {}


def kept_rows(spec: "AppSpec") -> dict[str, str]:
    """Where an app keeps rows: what people call them, a table by its name -> the name of the state table."""
    tables = {table.name: table_name(table.name) for table in spec.tables if table.distribution == "Partitioned"}
    return tables | {name: table for step in spec.steps for name, table in row_tables(step).items()}


def kept_state(spec: "AppSpec") -> dict[str, str]:
    """Name -> what is kept under it."""
    descriptions = {state_name(step): kept for step in spec.steps if (kept := step.kept_as) is not None}
    steps = {step.name: step for step in spec.steps}
    for sender, reader in partial_aggregates(spec).items():
        # What is under way in its stream can't be read as rows, nor rows as this.
        descriptions[state_name(steps[sender])] += f", aggregated for {state_name(steps[reader])}"
    return descriptions


@dataclass(frozen=True, slots=True)
class KeptState:
    """What a run keeps."""

    now: Mapping[str, str] = field(default_factory=dict)
    """Name -> what is kept under it."""
    given_up: frozenset[str] = frozenset()
    """Names under which it kept something before. The stores may still hold it, as it was then."""
    made_by: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Object of the spec -> the fields that made the state as it is, with their values: see `made_by`. What holds
    columns -> their types. Empty if the release that wrote the record did not store them."""

    def after(self, spec: "AppSpec", made: Mapping[str, Mapping[str, str]]) -> "KeptState":
        """What it keeps once this app has run in it; `made`: by what its plan says that its state is made."""
        now = kept_state(spec)
        # What is gone may come back, and then meets what it left behind.
        return KeptState(now, (self.given_up | self.now.keys()) - now.keys(), {**self.made_by, **made})


@dataclass(frozen=True, slots=True)
class StateChange:
    """What becomes of the state of a run when an app goes on with it."""

    renamed: Mapping[str, tuple[str, ...]]
    """Name that is gone -> steps that are new and keep the same: one of them may be the old one under a new name."""
    given_up: tuple[str, ...]
    """Names that are gone, and no step is new that could be meant."""
    misfits: Mapping[str, tuple[str, str]]
    """Name -> what is kept under it, and what its step would keep now."""
    taken_up: tuple[str, ...]
    """Steps that are new under a name that was given up, and do not say that they mean what was kept there."""
    edited: Mapping[str, Mapping[str, tuple[str, str]]]
    """Object of the spec -> fields that state can't follow, with what they were and what they are now."""
    read_again: Mapping[str, str]
    """Stream that is new -> the name that is gone, under which its topic was read."""


def state_change(before: KeptState, spec: "AppSpec", made: Mapping[str, Mapping[str, str]]) -> StateChange:
    """What becomes of what a run keeps."""
    now = kept_state(spec)
    removed_names = sorted(before.now.keys() - now.keys())
    new = sorted(now.keys() - before.now.keys())

    def alike(old: str, new: str) -> bool:
        paired = zip(_makers(old), _makers(new), strict=True)
        same = not any(edits({"": before.made_by.get(was, {})}, {"": made.get(is_now, {})}) for was, is_now in paired)
        return before.now[old] == now[new] and same

    renamed = {
        name: successors for name in removed_names if (successors := tuple(one for one in new if alike(name, one)))
    }
    says = {step.was for step in spec.steps}
    misfits = {
        name: (former, now[name]) for name, former in sorted(before.now.items()) if now.get(name, former) != former
    }
    misfit_paths = {step_path(name) for name in misfits}
    return StateChange(
        renamed,
        tuple(name for name in removed_names if name not in renamed),
        misfits,
        tuple(name for name in new if name in before.given_up - says),
        {path: fields for path, fields in edits(before.made_by, made).items() if path not in misfit_paths},
        StreamNames.of(spec).shown(read_before(before.made_by, kept_spec(spec), made)),
    )
