"""The tasks notation: partitions present now and the record of the last run give tasks, or the reason of a refusal."""

from collections.abc import Iterable
from typing import Any

from holdfast.tasks.grouping import ExpansionRefusedError, ExpansionRules, GroupingInput, group
from holdfast.tasks.partitions import StreamPartition, parse_partition


def run_tasks_case(case: dict[str, Any]) -> None:
    record = case.get("record")
    grouping = GroupingInput(
        partitions=parsed(case["partitions"]),
        broadcast=frozenset(parsed(case["broadcast"])),
        by_stream_partition=case["grouping"] == "ByStreamPartition",
        stateful=case["stateful"],
        expansion=ExpansionRules(enabled=case["enabled"]),
        record=None if record is None else {task: parsed(names) for task, names in record.items()},
    )
    expected = case["expect"]
    try:
        tasks = group(grouping)
    except ExpansionRefusedError as error:
        assert expected.get("problem") in [refusal.reason for refusal in error.refusals], str(error)
        return
    assert {name: sorted(map(str, inputs)) for name, inputs in tasks.items()} == {
        name: sorted(inputs) for name, inputs in expected["tasks"].items()
    }


def parsed(names: Iterable[str]) -> tuple[StreamPartition, ...]:
    return tuple(parse_partition(name) for name in names)
