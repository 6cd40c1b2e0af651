"""What slots answer is what the driver reads, also where it is left out."""

from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.progress import BufferedRows, Freed
from holdfast_runtime.slot.report import SlotReport, TaskReport, read_reports

NUMBERS = st.integers(0, 3)
COUNTS = st.dictionaries(st.sampled_from("ab"), NUMBERS)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "task": st.just("partition-0"),
    "buffered": st.dictionaries(st.just("made.left"), st.builds(BufferedRows, NUMBERS, NUMBERS, st.none() | NUMBERS)),
    "stream_marks": st.dictionaries(st.sampled_from("ab"), st.none() | NUMBERS),
}
BY_TYPE: dict[object, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    bool: st.booleans(),
    int | None: st.none() | NUMBERS,
    str | None: st.none() | st.sampled_from(["", "why"]),
    dict[str, int]: COUNTS,
}
REPORTS = st.builds(
    TaskReport,
    **{item.name: BY_NAME[item.name] if item.name in BY_NAME else BY_TYPE[item.type] for item in fields(TaskReport)},
)


@given(st.lists(REPORTS, max_size=3), st.integers(0, 2))
def test_answers_are_read_as_they_were_reported(tasks: list[TaskReport], freed: int) -> None:
    report = SlotReport(tuple(tasks), {"fetch": 1.5}, Freed(freed, 7))
    assert read_reports([report.text()]) == (report,)


def test_a_task_that_did_nothing_answers_with_its_name() -> None:
    assert '"tasks": [{"task": "partition-7"}]' in SlotReport((TaskReport("partition-7"),), {}).text()
