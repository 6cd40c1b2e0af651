"""Checks of an app against what will run it: its Python modules, the state of its run.

Modules of `runtime.code` are parsed, never run or imported. Parsing takes up to a thousand
times the memory of the text, and the operator parses what any user applies, so modules that are too long are not
checked. Renaming a step with state is refused until the step says so with `was`; the check compares the app with the
placement record of its run. Must not know how state is stored.
"""

import ast
from collections.abc import Iterator, Mapping

from holdfast.planning.graph import makes_stream
from holdfast.planning.problems import Problem
from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec
from holdfast.spec.edits import COUNT, KEY, held_path, step_path, table_paths
from holdfast.spec.kept_state import TABLE, KeptState, StateChange, state_name
from holdfast.spec.steps import Step
from holdfast.spec.streams import Table
from holdfast.spec.verbs import KEYED_VERBS
from holdfast.suggest import did_you_mean

_MOST_PARSED = 64_000
"""Characters parsed of all modules together: far more than people write by hand, and at most 64 MB of memory."""


def code_problems(spec: AppSpec) -> Iterator[Problem]:
    """A problem for each module that is not Python, and each function that its module does not define."""
    defined: dict[str, set[str]] = {}
    coroutines: set[str] = set()
    left = _MOST_PARSED
    for module, text in sorted(spec.runtime.code.items(), key=lambda item: (len(item[1]), item[0])):
        left -= len(text)
        if left < 0:
            break
        try:
            tree = ast.parse(text)
            defined[module] = _names(tree)
            coroutines |= {f"{module}:{node.name}" for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
        except SyntaxError as error:
            message = f"runtime.code.{module} is not Python: line {error.lineno}: {error.msg}"
            yield Problem(Reason.CODE_INVALID, message)
        except (ValueError, RecursionError, MemoryError) as error:
            yield Problem(Reason.CODE_INVALID, f"runtime.code.{module} is not Python: {error}")
    for step in spec.steps:
        verb = step.apply or step.process
        if verb is not None:
            yield from _missing(defined, verb.function, step=step.name)
            if step.apply is None or step.apply.concurrency is None:
                yield from _never_awaited(coroutines, verb.function, step.name)
    for system in spec.systems:
        if system.generator is not None:
            yield from _missing(defined, system.generator.function)


def _names(tree: ast.Module) -> set[str]:
    """All names that a module may define at its top level."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def _missing(defined: Mapping[str, set[str]], path: str, *, step: str | None = None) -> Iterator[Problem]:
    """A problem if the module was parsed and lacks the function; modules of the image can't be checked."""
    module, _, function = path.partition(":")
    names = defined.get(module)
    if names is not None and function not in names and "*" not in names:
        message = f"runtime.code.{module} has no {function}{did_you_mean(function, names)}"
        yield Problem(Reason.CODE_INVALID, message, step=step)


def _never_awaited(coroutines: set[str], path: str, step: str) -> Iterator[Problem]:
    if path in coroutines:
        message = (
            f"{path} is async, and nobody would await it: only apply with concurrency does, row by row (e.g. "
            f"concurrency: 64); write def instead, or set that"
        )
        yield Problem(Reason.CODE_INVALID, message, step=step)


def state_problems(spec: AppSpec, kept_state: KeptState, change: StateChange) -> Iterator[Problem]:
    """A problem for each state of the run that would be silently abandoned, or read by a step it does not fit."""
    keeping = {state_name(step): step for step in spec.steps}
    step_of = {name: step.name for name, step in keeping.items()}
    for name, state_names in change.renamed.items():
        new = tuple(step_of[one] for one in state_names)
        yield Problem(Reason.STEP_RENAMED, _rename(name, kept_state.now[name], new), step=new[0])
    for name, (before, now) in change.misfits.items():
        message = (
            f"this run keeps the state of {before} under the name {name}, and this step would keep that of {now}. "
            f"Put it back; {_cheaper_of_step(keeping[name])}or set a new spec.runId to start with empty state"
        )
        yield Problem(Reason.STATE_MISFIT, message, step=step_of[name])
    for name in change.taken_up:
        message = (
            f"{name} was removed in this run and is back; what is left of its state lacks all that has come since: say "
            f"`was: {name}` in it to take that up, or give it another name to start from nothing"
        )
        yield Problem(Reason.STATE_TAKEN_UP, message, step=step_of[name])
    for path, fields in change.edited.items():
        for field, (before, now) in fields.items():
            yield _edited(spec, path, field, f"was {before} and is {now}")
    for name, former in change.read_again.items():
        message = (
            f"stream {former} is gone and {name} means the same topic: under another name it would be read from its "
            f"start again, into the state that this run keeps. Say `was: {former}` in it, and it goes on where it was; "
            f"or call it {former} again, or set a new spec.runId"
        )
        yield Problem(Reason.STREAM_RENAMED, message, stream=name, field=f"spec.streams[{name}].name")


def _edited(spec: AppSpec, path: str, field: str, change: str) -> Problem:
    """The problem of a field, or of a column, that the state of the run was made by."""
    former = {path_of(keeper.was or keeper.name): keeper for keeper in spec.steps for path_of in (step_path, held_path)}
    step = former.get(path)
    table = next((one for one in spec.tables if path in table_paths(one.name)), None)
    stream = next((one.name for one in spec.streams if f"spec.streams[{one.was or one.name}]" == path), None)
    cheaper = ""
    if step is not None:
        path = (step_path if path.startswith("spec") else held_path)(step.name)
        cheaper = _cheaper_of_step(step)
    elif table is not None:
        cheaper = _cheaper_of_table(table)
    elif stream is not None:
        path = f"spec.streams[{stream}]"
    name = f"{path}.{field}" if path.startswith("spec") and field not in (KEY, COUNT) else f"{path}: {field}"
    message = (
        f"{name} {change}: the state of this run was made by what it was, and can't follow. Put it back; "
        f"{cheaper}or set a new spec.runId to start with empty state"
    )
    return Problem(
        Reason.STATE_MISFIT,
        message,
        step=None if step is None else step.name,
        stream=stream if table is None else table.name,
        field=name,
    )


def _cheaper_of_step(step: Step) -> str:
    """What costs less than a new run where state can't follow a step."""
    if step.verb in KEYED_VERBS:
        then = "then it alone starts from nothing"
    elif makes_stream(step):
        then = "then rows not yet read from its stream are given up, and all else goes on"
    else:
        then = "it keeps nothing of its own"
    return f"or give {step.name} another name: {then}; "


def _cheaper_of_table(table: Table) -> str:
    """What costs less than a new run where state can't follow a table."""
    if table.sources is None and table.files is None:
        return (
            f"or give table {table.name} and the steps that write it other names: then it alone starts from nothing; "
        )
    source = "files" if table.sources is None else "side inputs"
    return f"or give table {table.name} another name: then it alone is loaded anew, from its {source}; "


def given_up(kept_state: KeptState, change: StateChange) -> Iterator[Problem]:
    """A warning for each state of the run that no step keeps any more."""
    for name in change.given_up:
        on_the_way = f"rows not yet read from the intermediate stream of {name} are given up"
        lost = f"the state of {name} is given up" if _is_state(kept_state.now[name]) else on_the_way
        absence = "nobody writes" if kept_state.now[name] == TABLE else "there is no step"
        yield Problem(Reason.STATE_GIVEN_UP, f"{absence} {name} any more: {lost}", step=name)


def _rename(name: str, kind: str, new_steps: tuple[str, ...]) -> str:
    """The message about a step that is gone and new steps that may be the same one."""
    new = " or ".join(new_steps)
    if kind == TABLE:
        return (
            f"table {name.removesuffix('.table')} is gone, and {new} writes one of another name, which would start "
            f"from nothing. Keep the name, or remove the old one first and add the new one in a later change, or set a "
            f"new spec.runId"
        )
    if not _is_state(kind):
        return (
            f"{name} is gone and {new} is new, both {kind}: rows on their way would stay behind in the intermediate "
            f"stream of {name}. Keep the name, or set a new spec.runId"
        )
    return (
        f"{name} is gone and {new} is new, both {kind}: under another name it would start from nothing. If {new} is "
        f"{name} renamed, say `was: {name}` in it, and its state follows; if not, remove {name} first and add {new} in "
        f"a later change, or set a new spec.runId"
    )


def _is_state(kind: str) -> bool:
    return kind.split(maxsplit=1)[0] in (*KEYED_VERBS, TABLE)
