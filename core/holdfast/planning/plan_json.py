"""The plan as JSON, in the format that scripts, the driver and the operator rely on.

DESIGN.md pins the keys: keys may be added at the end, none may be removed. Must not decide anything.
"""

from typing import Any

from holdfast.planning.plan import Plan
from holdfast.planning.problems import Problem
from holdfast.planning.types.spark_types import RowType


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain JSON values."""
    return {
        "app": plan.app,
        "valid": plan.valid,
        "stateful": plan.stateful,
        "streams": [
            {
                "name": stream.name,
                "role": stream.role,
                "partitions": None if stream.count is None else stream.count.actual,
                "decidedBy": None if stream.count is None else stream.count.decided_by,
                "how": None if stream.count is None else stream.count.how,
                "topic": stream.topic,
                "key": None if stream.key is None else list(stream.key),
                "partitioner": stream.partitioner,
                "columns": _columns(stream.rows),
            }
            for stream in plan.streams
        ],
        "joins": [
            {"step": join_set.step, "streams": list(join_set.streams), "partitions": plan.partitions_of(join_set)}
            for join_set in plan.sets
        ],
        "tables": [
            {
                "name": table.name,
                "key": list(table.key),
                "distribution": table.distribution,
                "sources": list(table.sources),
                "writers": list(table.writers),
                "files": table.files,
                "columns": _columns(table.rows),
            }
            for table in plan.tables
        ],
        "steps": [
            {
                "name": step.name,
                "verb": step.verb,
                "from": list(step.inputs),
                "columns": _columns(step.rows),
                "partitionedBy": step.spread.text,
                "updatesBy": None if step.updates is None else list(step.updates.by),
            }
            for step in plan.steps
        ],
        "tasks": [
            {"name": task.name, "inputs": [str(part) for part in task.inputs], "new": [str(part) for part in task.new]}
            for task in plan.tasks
        ],
        "producers": {stream: list(tasks) for stream, tasks in plan.producers.items()},
        "assignment": {processor: list(tasks) for processor, tasks in plan.assignment.items()},
        "moved": [{"task": move.task, "from": move.recorded, "to": move.now} for move in plan.moved],
        "warnings": [problem_json(warning) for warning in plan.warnings],
        "problems": [problem_json(problem) for problem in plan.problems],
    }


def problem_json(problem: Problem) -> dict[str, Any]:
    """Return one problem or warning as plain JSON values."""
    return {
        "reason": problem.reason.value,
        "step": problem.step,
        "stream": problem.stream,
        "streams": {stream.name: stream.partitions for stream in problem.streams},
        "how": {stream.name: stream.how for stream in problem.streams},
        "paths": [list(path) for path in problem.paths],
        "message": problem.message,
        "repair": None if problem.repair is None else problem.repair.yaml,
    }


def _columns(rows: RowType) -> dict[str, str]:
    return {column.name: column.type for column in rows.columns}
