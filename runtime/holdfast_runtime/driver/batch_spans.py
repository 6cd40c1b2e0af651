"""The spans of a batch: made of what its slots reported and the driver measured, without a clock of their own.

    batch  [----------------------------------]
    plan   [---]
    spark      [-----]
    slot             [------------------------]   each slot, with its phases
    slot             [-----------]

Slots report how long a phase took, for all of their tasks together, and not when: so phases lie one behind the other,
and all slots begin when what is outside of the slowest one is over. Sums are those of metrics. A batch has at most some
hundred spans, however many tasks and slots there are. Must not hold keys, rows, names of streams or texts of errors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast_runtime.progress import Progress
from holdfast_runtime.slot.report import SlotReport

MOST_SLOTS = 128
"""Of more slots only the slowest have spans: with nine spans each they fit into the usual queue of an exporter."""
_AROUND = ("plan", "spark")
"""The phases outside of slots."""
_SECOND, _MILLISECOND = 1_000_000_000, 1_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """A named time with what is known of it. Times are nanoseconds since 1970."""

    name: str
    begin: int
    end: int
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    children: tuple["Span", ...] = ()
    waits: tuple[int, ...] = ()
    """When it was told that the batch waits for an outside system."""
    error: str | None = None
    """The code of the error with which it ended."""


@dataclass(frozen=True, slots=True)
class TracedAttempt:
    """The attempt whose batches are traced."""

    app: str
    namespace: str | None
    """None: it runs on no cluster."""
    run: str
    attempt: int

    def of_batch(self, batch: int) -> dict[str, str | int]:
        """Return the attributes of a batch."""
        place = {} if self.namespace is None else {"holdfast.namespace": self.namespace}
        return {
            "holdfast.app": self.app,
            **place,
            "holdfast.run": self.run,
            "holdfast.attempt": self.attempt,
            "holdfast.batch": batch,
        }


@dataclass(frozen=True, slots=True)
class DoneBatch:
    """A batch that is committed."""

    attempt: TracedAttempt
    end: int
    """Nanoseconds since 1970."""
    progress: Progress
    reports: Sequence[SlotReport]
    locations: Mapping[str, str]
    """Slot -> its location, in the order of the reports."""
    waits: tuple[int, ...] = ()

    def span(self) -> Span:
        """Return the batch's span with all below it."""
        progress = self.progress
        begin = self.end - round(progress.seconds * _SECOND)
        around = _behind_one_another(
            {phase: progress.phases[phase] for phase in _AROUND if phase in progress.phases}, begin, self.end
        )
        slots_begin = around[-1].end if around else begin
        slots = (
            _slot_span(slot, location, report, slots_begin, self.end)
            for (slot, location), report in _slowest(list(zip(self.locations.items(), self.reports, strict=True)))
        )
        attributes = {
            **self.attempt.of_batch(progress.batch),
            "holdfast.slots": len(self.reports),
            "holdfast.tasks": progress.tasks,
            "holdfast.restored_tasks": len(progress.restored),
            "holdfast.rows_in": progress.rows_in,
            "holdfast.rows_out": progress.rows_out,
            "holdfast.bytes_out": progress.bytes_out,
            "holdfast.lag_records": progress.lag,
        }
        return Span("batch", begin, self.end, attributes, (*around, *slots), self.waits)


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A batch that began and ended the run with an error."""

    attempt: TracedAttempt
    batch: int
    begin: int
    end: int
    code: str
    waits: tuple[int, ...] = ()

    def span(self) -> Span:
        """Return the batch's span; what its slots did is not known."""
        attributes = self.attempt.of_batch(self.batch)
        return Span("batch", self.begin, max(self.begin, self.end), attributes, waits=self.waits, error=self.code)


def is_due(last: int, end: int) -> bool:
    """Return whether a batch is traced if nobody has chosen a sampler; `last`: when the last such batch ended.

    At most one a second: so each batch that takes a second or longer is.
    """
    # A host's clock that is set back must not end all traces.
    return not last <= end < last + _SECOND


_SlotPart = tuple[tuple[str, str], SlotReport]


def _slowest(parts: Sequence[_SlotPart]) -> Iterator[_SlotPart]:
    if len(parts) <= MOST_SLOTS:
        yield from parts
        return
    times = [sum(report.phases.values()) for _, report in parts]
    slowest = sorted(range(len(parts)), key=times.__getitem__, reverse=True)[:MOST_SLOTS]
    yield from (parts[index] for index in sorted(slowest))


def _slot_span(slot: str, location: str, report: SlotReport, begin: int, latest: int) -> Span:
    phases, tasks = _behind_one_another(report.phases, begin, latest), report.tasks
    attributes: dict[str, str | int] = {
        "holdfast.slot": slot,
        "holdfast.location": location,
        "holdfast.tasks": len(tasks),
        "holdfast.restored_tasks": sum(task.restored is not None for task in tasks),
        "holdfast.rows_in": sum(sum(task.rows_in.values()) for task in tasks),
        "holdfast.rows_out": sum(sum(task.rows_out.values()) for task in tasks),
        "holdfast.bytes_in": sum(task.bytes_in for task in tasks),
        "holdfast.bytes_out": sum(task.bytes_out for task in tasks),
    }
    return Span("slot", begin, phases[-1].end if phases else begin, attributes, phases)


def _behind_one_another(phases: Mapping[str, float], begin: int, latest: int) -> tuple[Span, ...]:
    """Return a span for each of these milliseconds; none ends after `latest`, which sums of floats may miss."""
    spans, passed = list[Span](), 0.0
    for phase, milliseconds in phases.items():
        start = min(begin + round(passed * _MILLISECOND), latest)
        passed += milliseconds
        spans.append(Span(phase, start, min(begin + round(passed * _MILLISECOND), latest)))
    return tuple(spans)
