"""Random lives of one task: batches of control messages on a virtual clock, as a partition's log would deliver them."""

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import strategies as st

from holdfast.control.bookkeeping import Bookkeeping, ControlInputs
from holdfast.control.messages import EndOfStreamMessage, MessageNumber, WatermarkMessage
from holdfast.control.producers import Delivery, Producers
from holdfast.control.runs import WriterRun
from holdfast.tasks.partitions import StreamPartition

TASKS = ("a", "b", "c")
MID = (StreamPartition("mid", 0), StreamPartition("mid", 1))
SOURCE = StreamPartition("src", 0)
FOREIGN = StreamPartition("foreign", 0)
SIDE = StreamPartition("side", 0)
PARTITIONS = (*MID, SOURCE, FOREIGN, SIDE)
IDLE_AFTER = 100


@dataclass(frozen=True)
class Batch:
    now: int
    deliveries: tuple[Delivery, ...]


def inputs(idle_after: int | None = IDLE_AFTER, quorum: float = 0.5, *, named: bool = True) -> ControlInputs:
    """A task that reads its app's stream, a source, another app's stream and a side input."""
    names = frozenset(TASKS) if named else frozenset[str]()
    producers = {
        "mid": Producers(len(TASKS), names, idle_after, quorum),
        "foreign": Producers(0, frozenset(), idle_after, quorum),
    }
    return ControlInputs(PARTITIONS, producers, frozenset({"side"}))


any_inputs = st.builds(
    inputs, st.sampled_from([None, IDLE_AFTER]), st.sampled_from([0.0, 0.5, 0.67, 1.0]), named=st.booleans()
)


@st.composite
def histories(draw: st.DrawFn, *, ends: bool = True, anew: bool = True) -> list[Batch]:
    """Each producer's numbers increase; its watermarks mostly do. The other app may be run anew, which starts them
    again, and its old run may have a last word.
    """
    now, history = 0, []
    runs = WriterRun("x/1/1", 4), WriterRun("x/1/2", 1), WriterRun("x/1/1", 5), WriterRun("x/2/3", 1)
    foreign: tuple[WriterRun | None, ...] = draw(
        st.sampled_from([(None,), runs[:1], *([runs[:2], runs] if anew else [])])
    )
    run, starts = 0, {0: 0}
    for number in range(draw(st.integers(1, 8))):
        now += draw(st.sampled_from([0, 1, 40, 60, 100, 101, 500]))
        delivered = []
        for sequence in range(draw(st.integers(0, 6))):
            run = draw(st.integers(run, len(foreign) - 1))
            starts.setdefault(run, starts[0] if run == _RETURN else number)
            heard = run if draw(st.integers(0, 5)) else min(starts)
            delivered.append(draw(deliveries(number, sequence, ends, (foreign[heard], starts[heard]))))
        history.append(Batch(now, tuple(delivered)))
    return history


_RETURN = 2
"""The number of the run that goes on where it was before another one."""


@st.composite
def deliveries(
    draw: st.DrawFn, batch: int, sequence: int, ends: bool, foreign: tuple[WriterRun | None, int]
) -> Delivery:
    partition = draw(st.sampled_from(PARTITIONS))
    run, start = foreign if partition == FOREIGN else (None, 0)
    batch -= start
    named = partition.stream in ("mid", "foreign") and draw(st.integers(0, 7)) > 0
    task = draw(st.sampled_from(TASKS)) if named else None
    count = len(TASKS) if named else None
    at = MessageNumber(batch, sequence)
    if ends and draw(st.integers(0, 4)) == 0:
        return Delivery(partition, EndOfStreamMessage(partition.stream, at, task, count, run))
    timestamp = batch * 10 + draw(st.integers(-30, 30))
    idle = partition.stream in ("mid", "foreign") and draw(st.integers(0, 5)) == 0
    return Delivery(partition, WatermarkMessage(timestamp, at, task, count, run, idle))


def lived(history: Iterable[Batch], state: Bookkeeping) -> Bookkeeping:
    for batch in history:
        state = state.batch(batch.deliveries, batch.now)
    return state


def said(timestamp: int, task: str | None, batch: int, partition: StreamPartition = MID[0]) -> Delivery:
    """A watermark of a producer."""
    return Delivery(partition, WatermarkMessage(timestamp, MessageNumber(batch, 0), task, len(TASKS) if task else None))


def ended(task: str | None, batch: int, partition: StreamPartition = MID[0]) -> Delivery:
    """The end of a producer."""
    at = MessageNumber(batch, 1)
    return Delivery(partition, EndOfStreamMessage(partition.stream, at, task, len(TASKS) if task else None))
