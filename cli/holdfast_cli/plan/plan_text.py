"""A plan as text: streams, joins, tasks, growth, assignment, problems with repairs, and the verdict last.

Shows which numbers were decided and why, what is wrong and where, and repairs to paste. Also prints the errors of an
invalid file, as text and as JSON. Must not decide anything: all of it is in the plan.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from holdfast.planning.plan import Plan, PlannedStream, PlanningFacts
from holdfast.planning.problems import Problem, excerpt
from holdfast.reasons import Reason
from holdfast_api.plan_view import python_repair
from holdfast_cli.output.amounts import many
from holdfast_cli.output.failures import print_failure
from holdfast_cli.output.screen import screen, styled
from holdfast_cli.output.text_table import TextTable
from holdfast_cli.plan.app_file import AppFile, FileMark
from holdfast_cli.plan.python_app import is_python

if TYPE_CHECKING:
    from holdfast_runtime.inspection.spark_need import SparkNeed

_SHOWN_TASKS = 4
_SHOWN_NEW = 8


def print_spec_errors(file: AppFile, *, color: str, to_stderr: bool) -> None:
    """Print all errors of a file, one per line, with their addresses."""
    console = screen(color, to_stderr=to_stderr)
    for error in file.errors:
        console.print(styled(f"{file.address_of(error)}: ", (error.dotted, "bold"), f": {error.message}"))
    console.print()
    console.print(styled(("rejected", "bold red"), f": InvalidSpec: {many(len(file.errors), 'error')} in {file.path}"))


def print_plan(
    file: AppFile, plan: Plan, facts: PlanningFacts, need: "SparkNeed | None", *, color: str, wide: bool
) -> None:
    """Print the plan; `need`: what of it Spark SQL computes, if that is known."""
    console = screen(color)
    state = "with state" if plan.stateful else "without state"
    run = file.app.spec.run_id if file.app else ""
    console.print(styled((plan.app, "bold"), f"  run {run}, {state}"))
    _streams(console, plan)
    _joins(console, plan)
    _tables(console, plan)
    if wide:
        _steps(console, plan)
    _tasks(console, plan, wide=wide)
    _growth(console, plan, facts)
    _assignment(console, plan, facts, wide=wide)
    _spark_sql(console, need)
    _findings(console, file, "WARNINGS", plan.warnings, "yellow")
    _findings(console, file, "PROBLEMS", plan.problems, "red")
    console.print()
    console.print(_verdict(plan, need))


def _streams(console: Console, plan: Plan) -> None:
    table = TextTable("STREAM", "ROLE", "PARTITIONS", "DECIDED BY", "KEY", "TOPIC", right=("PARTITIONS",))
    for stream in plan.streams:
        count, origin = ("?", "unknown") if stream.count is None else (str(stream.count.actual), _origin(stream))
        key = ", ".join(stream.key) if stream.key else "-"
        table.add(stream.name, stream.role, count, origin, key, stream.topic)
    console.print()
    table.print(console)


def _origin(stream: PlannedStream) -> str:
    count = stream.count
    if count is None:
        return "unknown"
    if count.grown_to is not None:
        return f"{count.decided_by} (tasks built for {count.partitions})"
    return f"{count.decided_by}: {count.how}" if count.decided_by in ("default", "config") else count.decided_by


def _joins(console: Console, plan: Plan) -> None:
    if not plan.sets:
        return
    table = TextTable("MEET IN", "VERB", "PARTITIONS", "STREAMS", right=("PARTITIONS",))
    for stream_set in plan.sets:
        count = plan.partitions_of(stream_set)
        shown = ("differ", "red") if count is None else str(count)
        table.add(stream_set.step, stream_set.verb, shown, ", ".join(stream_set.streams))
    console.print()
    table.print(console)


def _tables(console: Console, plan: Plan) -> None:
    if not plan.tables:
        return
    table = TextTable("TABLE", "DISTRIBUTION", "KEY", "FED BY")
    for planned_table in plan.tables:
        table.add(
            planned_table.name,
            planned_table.distribution,
            ", ".join(planned_table.key),
            ", ".join(planned_table.sources or planned_table.writers) or planned_table.files or "-",
        )
    console.print()
    table.print(console)


def _steps(console: Console, plan: Plan) -> None:
    table = TextTable("STEP", "VERB", "FROM", "PARTITIONED BY", "COLUMNS")
    for step in plan.steps:
        rows = ", ".join(f"{column.name} {column.type}" for column in step.rows.columns)
        more = "" if step.rows.closed else " ..."
        verb = step.verb if step.updates is None else f"{step.verb}, {step.updates.text}"
        table.add(step.name, verb, ", ".join(step.inputs), step.spread.text, rows + more)
    console.print()
    table.print(console)


def _tasks(console: Console, plan: Plan, *, wide: bool) -> None:
    if not plan.tasks:
        return
    shown = plan.tasks if wide else plan.tasks[:_SHOWN_TASKS]
    table = TextTable("TASK", "READS")
    for task in shown:
        table.add(task.name, ", ".join(map(str, task.inputs)))
    console.print()
    table.print(console)
    if len(shown) < len(plan.tasks):
        console.print(styled((f"... and {len(plan.tasks) - len(shown)} more (--wide shows all)", "dim")))


def _growth(console: Console, plan: Plan, facts: PlanningFacts) -> None:
    if facts.record is None or any(warning.reason is Reason.RECORD_IGNORED for warning in plan.warnings):
        return
    refused = {problem.stream for problem in plan.problems}
    refused |= {stream.name for problem in plan.problems for stream in problem.streams}
    before = facts.record.counts()
    table = TextTable("GROWN", "BEFORE", "NOW", "NEW PARTITIONS", right=("BEFORE", "NOW"))
    for stream in plan.streams:
        if stream.count is None or stream.name not in before or before[stream.name] == stream.count.actual:
            continue
        new = [f"{part} to {task.name}" for task in plan.tasks for part in task.new if part.stream == stream.name]
        more = f" and {len(new) - _SHOWN_NEW} more" if len(new) > _SHOWN_NEW else ""
        none = "(refused)" if stream.name in refused else "-"
        listed = ", ".join(new[:_SHOWN_NEW]) + more if new else none
        table.add(stream.name, str(before[stream.name]), str(stream.count.actual), listed)
    if len(table):
        console.print()
        table.print(console)


def _assignment(console: Console, plan: Plan, facts: PlanningFacts, *, wide: bool) -> None:
    if not plan.assignment:
        return
    table = TextTable("PROCESSOR", "LOCATION", "TASKS", "WHICH", right=("TASKS",))
    for processor, tasks in plan.assignment.items():
        shown = tasks if wide else tasks[:_SHOWN_TASKS]
        more = f" and {len(tasks) - len(shown)} more" if len(tasks) > len(shown) else ""
        table.add(processor, facts.processors[processor], str(len(tasks)), ", ".join(shown) + more)
    console.print()
    table.print(console)
    if not plan.moved:
        return
    table = TextTable("MOVED", "FROM", "TO")
    for move in plan.moved if wide else plan.moved[:_SHOWN_NEW]:
        table.add(move.task, move.recorded, move.now)
    console.print()
    table.print(console)
    if not wide and len(plan.moved) > _SHOWN_NEW:
        console.print(styled((f"... and {len(plan.moved) - _SHOWN_NEW} more (--wide shows all)", "dim")))


def _spark_sql(console: Console, need: "SparkNeed | None") -> None:
    if need is None or not need.expressions:
        return
    table = TextTable("SPARK SQL IN", "FIELD", "EXPRESSION")
    for expression in need.expressions:
        table.add(expression.owner, expression.field, excerpt(expression.text))
    console.print()
    table.print(console)
    if not need.complete:
        owner = need.expressions[-1].owner
        console.print(styled((f"... and maybe more: only Spark knows the columns of {owner}", "dim")))
    console.print(styled(("so each batch is a Spark job, about 0.1 s more", "dim")))


def _findings(console: Console, file: AppFile, heading: str, problems: Iterable[Problem], color: str) -> None:
    problems = tuple(problems)
    if not problems:
        return
    console.print()
    console.print(styled((heading, f"bold {color}")))
    shown: set[str] = set()
    for problem in problems:
        mark = _mark(file, problem)
        subject = f" at {problem.step or problem.stream}" if problem.step or problem.stream else ""
        address = f" ({file.path}:{mark.line}:{mark.column})" if mark else ""
        console.print(styled((problem.reason.value, color), f"{subject}{address}"))
        console.print(styled(f"  {problem.message}"))
        _set_of(console, problem)
        if problem.repair is not None and problem.repair.yaml in shown:
            console.print(styled("  repair: as above"))
        elif problem.repair is not None and is_python(file.path):
            shown.add(problem.repair.yaml)
            for line in python_repair(problem.repair).splitlines():
                console.print(styled((f"  {line}", "green")))
        elif problem.repair is not None:
            shown.add(problem.repair.yaml)
            console.print(styled("  repair, to paste:"))
            for line in problem.repair.yaml.splitlines():
                console.print(styled(("    " + line, "green")), soft_wrap=True)


def _set_of(console: Console, problem: Problem) -> None:
    if not problem.streams:
        return
    table = TextTable("STREAM", "PARTITIONS", "BECAUSE", "PATH", right=("PARTITIONS",), indent="    ")
    paths = problem.paths or ((),) * len(problem.streams)
    for stream, path in zip(problem.streams, paths, strict=True):
        table.add(stream.name, str(stream.partitions), stream.how, " -> ".join(path))
    table.print(console)


def _mark(file: AppFile, problem: Problem) -> FileMark | None:
    """Return where the problem's step, stream or table is in the file."""
    spec = file.document.tree.get("spec", {}) if isinstance(file.document.tree, dict) else {}
    for field, name in (("steps", problem.step), ("streams", problem.stream), ("tables", problem.stream)):
        for i, item in enumerate(spec.get(field) or ()):
            if name is not None and item.get("name") == name:
                return file.document.mark(("spec", field, i))
    return None


def _verdict(plan: Plan, need: "SparkNeed | None") -> Text:
    warnings = f", {many(len(plan.warnings), 'warning')}" if plan.warnings else ""
    if not plan.valid:
        return styled(("rejected", "bold red"), f": {many(len(plan.problems), 'problem')}{warnings}")
    roles = [stream.role for stream in plan.streams]
    parts = [many(roles.count("input"), "input"), many(len(plan.steps), "step"), many(len(plan.tasks), "task")]
    if need is not None and not need.expressions:
        parts.append("no Spark SQL")
    if intermediates := roles.count("intermediate"):
        parts.insert(1, many(intermediates, "intermediate stream"))
    return styled(("valid", "bold green"), f": {', '.join(parts)}{warnings}")


def report_invalid(files: Sequence[AppFile], output: str, color: str = "auto", *, event: bool = False) -> int:
    """Print the errors of files that are not valid, also as JSON if `output` is json; return the exit code."""
    for file in files:
        print_spec_errors(file, color=color, to_stderr=True)
    problems = [
        {"reason": "InvalidSpec", "path": error.dotted, "message": str(error), "place": file.address_of(error)}
        for file in files
        for error in file.errors
    ]
    names = " and ".join(file.path for file in files)
    message = f"{names} {'is not a valid StreamApp' if len(files) == 1 else 'are not valid StreamApps'}"
    print_failure(output, "InvalidSpec", message, problems, event=event)
    return 1
