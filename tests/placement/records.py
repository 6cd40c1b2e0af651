"""Records to draw and records to build."""

import random

from hypothesis import strategies as st

from holdfast.spec.kept_state import KeptState
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd, PlacementRecord

NAMES = st.text(min_size=1, max_size=12)
RUN_IDS = st.text(min_size=1, max_size=15) | st.from_regex(
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True
)
PARTITIONS = st.builds(StreamPartition, NAMES, st.integers(0, 10**6))


@st.composite
def records(draw: st.DrawFn, run_ids: st.SearchStrategy[str] = RUN_IDS) -> PlacementRecord:
    """Any record that can be read again."""
    drawn = draw(st.dictionaries(NAMES, st.lists(PARTITIONS, max_size=4, unique=True).map(sorted), max_size=8))
    owner = {partition: task for task, partitions in drawn.items() for partition in partitions}
    grouping = {task: tuple(part for part in parts if owner[part] == task) for task, parts in drawn.items()}
    children = draw(st.dictionaries(PARTITIONS, st.integers(0, 2**63), max_size=4))
    return PlacementRecord(
        run_id=draw(run_ids),
        grouping=grouping,
        task_location=draw(st.dictionaries(NAMES, NAMES, max_size=8)),
        task_processor=draw(st.dictionaries(NAMES, NAMES, max_size=8)),
        child_after={
            child: ParentEnd(StreamPartition(child.stream, child.partition + 1), offset)
            for child, offset in children.items()
        },
        side_counts=draw(st.dictionaries(NAMES, st.integers(1, 10**6), max_size=2)),
        state=KeptState(
            draw(st.dictionaries(NAMES, NAMES, max_size=3)),
            draw(st.frozensets(NAMES, max_size=3)),
            draw(st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES, max_size=2), max_size=2)),
        ),
    )


def large(tasks: int, run_id: str = "1", streams: int = 4) -> PlacementRecord:
    """The record of a large app whose inputs all grew once, with long names, nothing of which can be foreseen.

    10 000 executors; their nodes have names as clouds give them, and each task is on any of them.
    """
    draw = random.Random(7)  # noqa: S311
    names = sorted(f"customer-journey.checkout-impressions.enriched.region-{number}" for number in range(streams))
    parts = ".".join(["ip", *(str(draw.randrange(256)) for _ in range(3))])
    nodes = [f"{parts}-{draw.getrandbits(64):x}.eu-central-1.compute.internal" for _ in range(10_000)]
    executor_index = {f"partition-{number}": draw.randrange(len(nodes)) for number in range(tasks)}
    return PlacementRecord(
        run_id,
        {f"partition-{number}": tuple(StreamPartition(name, number) for name in names) for number in range(tasks)},
        {task: nodes[index] for task, index in executor_index.items()},
        {task: f"customer-journey-of-all-regions-exec-{index}" for task, index in executor_index.items()},
        {
            StreamPartition(name, number): ParentEnd(StreamPartition(name, number - tasks // 2), draw.randrange(10**11))
            for name in names
            for number in range(tasks // 2, tasks)
        },
    )


def some(name: str, run_id: str = "1") -> PlacementRecord:
    """A record of a hundred tasks; those of two names differ in one processor."""
    tasks = {f"partition-{i:03}": (StreamPartition("clicks", i),) for i in range(100)}
    return PlacementRecord(run_id, tasks, {}, {"partition-099": name})
