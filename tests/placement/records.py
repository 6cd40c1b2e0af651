"""Records to draw and records to build."""

from hypothesis import strategies as st

from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd, PlacementRecord

BUDGET = 1000

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
    )


def large(tasks: int, run_id: str = "1") -> PlacementRecord:
    """The record of a large app whose two inputs grew once, with the names a cluster gives."""
    streams = ("ad-impressions", "ad-clicks")
    return PlacementRecord(
        run_id,
        {f"partition-{i}": tuple(StreamPartition(stream, i) for stream in sorted(streams)) for i in range(tasks)},
        {f"partition-{i}": f"holdfast-state-ad-clicks-exec-{i % 1000}" for i in range(tasks)},
        {f"partition-{i}": f"ad-clicks-exec-{i % 1000}" for i in range(tasks)},
        {
            StreamPartition("ad-clicks", i): ParentEnd(StreamPartition("ad-clicks", i - tasks // 2), 10**9 + i)
            for i in range(tasks // 2, tasks)
        },
    )


def several_shards(name: str, run_id: str = "1") -> PlacementRecord:
    """A record of four shards; those of two names differ in the last one only."""
    tasks = {f"partition-{i:03}": (StreamPartition("clicks", i),) for i in range(100)}
    return PlacementRecord(run_id, tasks, {}, {"partition-099": name})
