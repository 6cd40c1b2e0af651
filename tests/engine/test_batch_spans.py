"""The spans of a batch: their times, their sums, how many there are, and what they don't say."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.driver.batch_spans import MOST_SLOTS, DoneBatch, FailedBatch, Span, TracedAttempt, is_due
from holdfast_runtime.slot.report import SlotReport, TaskReport
from tests.cli.run_events import FIRST

ATTEMPT = TracedAttempt("ad-clicks", "team", "1", 3)
END = 1_795_177_628_000_000_000
SECOND = 1_000_000_000
TASK = TaskReport(
    "partition-3",
    rows_in={"clicks": 7},
    bytes_in=70,
    rows_out={"attributed": 2, "bad": 1},
    bytes_out=30,
    restored="no local store",
    held_back="clicks/3",
)


def batch(*phases: Mapping[str, float], plan: float = 10.0, outside: float = 5.0) -> DoneBatch:
    """A batch of one task in each slot, measured as the loop does it."""
    slowest = max(phases, key=lambda slot: sum(slot.values()))
    seconds = (plan + outside + sum(slowest.values())) / 1000
    progress = replace(FIRST, seconds=seconds, phases={"plan": plan, "spark": outside, **slowest})
    reports = tuple(SlotReport((TASK,), slot) for slot in phases)
    locations = {f"executor-1/{slot}": "disk-7" for slot in range(len(phases))}
    return DoneBatch(ATTEMPT, END, progress, reports, locations)


def below(span: Span) -> Iterator[tuple[Span, Span]]:
    """Each span with its parent."""
    for child in span.children:
        yield span, child
        yield from below(child)


def took(span: Span) -> float:
    return (span.end - span.begin) / 1_000_000


def test_phases_and_slots_lie_in_the_batch() -> None:
    span = batch({"fetch": 20.0, "steps": 40.0, "commit": 20.0}, {"fetch": 2.0, "commit": 1.0}).span()
    assert (span.name, span.end, took(span)) == ("batch", END, 95.0)
    assert [(child.name, (child.begin - span.begin) / 1_000_000, took(child)) for child in span.children] == [
        ("plan", 0.0, 10.0),
        ("spark", 10.0, 5.0),
        ("slot", 15.0, 80.0),
        ("slot", 15.0, 3.0),
    ]
    slot = span.children[2]
    assert [(child.name, (child.begin - slot.begin) / 1_000_000, took(child)) for child in slot.children] == [
        ("fetch", 0.0, 20.0),
        ("steps", 20.0, 40.0),
        ("commit", 60.0, 20.0),
    ]


PHASES = st.dictionaries(st.sampled_from(["open", "fetch", "steps", "write", "commit"]), st.floats(0, 1e5))


@given(st.lists(PHASES, min_size=1, max_size=4), st.floats(0, 1e5), st.floats(0, 1e5))
def test_no_span_is_longer_than_its_parent(slots: list[dict[str, float]], plan: float, outside: float) -> None:
    span = batch(*slots, plan=plan, outside=outside).span()
    for parent, child in below(span):
        assert parent.begin <= child.begin <= child.end <= parent.end
    slowest = max((took(child) for child in span.children if child.name == "slot"), default=0.0)
    assert took(span) == pytest.approx(plan + outside + slowest, abs=1e-3)


def test_attributes_say_how_much_and_where_not_what() -> None:
    span = batch({"steps": 1.0}).span()
    assert span.attributes == {
        "holdfast.app": "ad-clicks",
        "holdfast.namespace": "team",
        "holdfast.run": "1",
        "holdfast.attempt": 3,
        "holdfast.batch": 41,
        "holdfast.slots": 1,
        "holdfast.tasks": 16,
        "holdfast.restored_tasks": 1,
        "holdfast.rows_in": 12_000,
        "holdfast.rows_out": 900,
        "holdfast.bytes_out": 123_456,
        "holdfast.lag_records": 4_321,
    }
    (slot,) = (child for child in span.children if child.name == "slot")
    assert slot.attributes == {
        "holdfast.slot": "executor-1/0",
        "holdfast.location": "disk-7",
        "holdfast.tasks": 1,
        "holdfast.restored_tasks": 1,
        "holdfast.rows_in": 7,
        "holdfast.rows_out": 3,
        "holdfast.bytes_in": 70,
        "holdfast.bytes_out": 30,
    }


def test_outside_of_a_cluster_there_is_no_namespace() -> None:
    local = replace(batch({"steps": 1.0}), attempt=replace(ATTEMPT, namespace=None))
    assert "holdfast.namespace" not in local.span().attributes


def test_of_many_slots_only_the_slowest_have_spans() -> None:
    many = batch(*({"fetch": 1.0, "steps": float(slot)} for slot in range(1_000)))
    span = many.span()
    slots = [child for child in span.children if child.name == "slot"]
    assert [slot.attributes["holdfast.slot"] for slot in slots] == [
        f"executor-1/{slot}" for slot in range(1_000 - MOST_SLOTS, 1_000)
    ]
    assert span.attributes["holdfast.slots"] == 1_000


def test_ten_thousand_tasks_make_no_more_spans() -> None:
    few = batch({"fetch": 1.0, "steps": 2.0})
    (report,) = few.reports
    many = replace(few, reports=(replace(report, tasks=(TASK,) * 10_000),))
    assert len(list(below(many.span()))) == len(list(below(few.span())))


def test_a_failed_batch_has_the_code_of_its_error() -> None:
    span = FailedBatch(ATTEMPT, 42, END, END + SECOND, "DeltaMissingError", waits=(END + 5,)).span()
    assert (span.begin, span.end, span.error, span.waits) == (END, END + SECOND, "DeltaMissingError", (END + 5,))
    assert (span.attributes["holdfast.batch"], span.children) == (42, ())


def test_a_clock_put_back_makes_no_span_end_early() -> None:
    span = FailedBatch(ATTEMPT, 42, END, END - SECOND, "TypeError").span()
    assert span.begin == span.end


@pytest.mark.parametrize(
    ("after", "due"), [(0, False), (SECOND - 1, False), (SECOND, True), (60 * SECOND, True), (-SECOND, True)]
)
def test_one_batch_a_second_is_traced(after: int, *, due: bool) -> None:
    assert is_due(END, END + after) == due
