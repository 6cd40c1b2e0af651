"""Checks of a plan's graph, keys, counts and topics; each problem has numbers, paths and a repair.

They find: cycles; invalid locations; partition counts that disagree; rows that are unused, never fed or
repeated once per task; two names for one topic; client settings that are not allowed. Must not derive anything or ask
brokers: it only compares what the other modules found with the spec.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from holdfast.placement.location import LocationInvalidError, check_location
from holdfast.placement.state_disk import DiskSharing, StateDisk, names_several_disks, state_disk
from holdfast.planning.graph import Graph, makes_stream
from holdfast.planning.key_needs import KeyNeed
from holdfast.planning.partition_counts import DecidedCount, JoinSet, Reaching, paths_to
from holdfast.planning.problems import MOST_PROBLEMS, Problem, Repair, StreamCount
from holdfast.planning.repair_search import PlanDraft, find_repair
from holdfast.planning.schema_streams import written_schema
from holdfast.planning.spread import Spread
from holdfast.planning.types.record_formats import RECORD_FORMATS
from holdfast.protocol.pods import STATE_DIRECTORY
from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec
from holdfast.spec.kafka_settings import unacceptable_name
from holdfast.spec.streams import System

MENDABLE = frozenset({Reason.PARTITION_COUNT_MISMATCH, Reason.KEY_MISMATCH, Reason.PARTITIONER_MISMATCH})
"""Reasons that a `repartition` in the right place can repair."""


def circle_problems(graph: Graph) -> Iterator[Problem]:
    """A problem if steps read each other in a circle."""
    if graph.circle:
        names = ", ".join(graph.circle)
        message = f"these steps read each other in a circle: {names}; no row could ever leave it"
        yield Problem(Reason.STEP_CYCLE, message, step=graph.circle[0])


def location_problems(spec: AppSpec) -> Iterator[Problem]:
    """A problem if the location names fields that pods and nodes do not have, or several disks."""
    try:
        check_location(spec.state.location)
    except LocationInvalidError as error:
        yield Problem(Reason.INVALID_SPEC, str(error))
    if (disk := _split_disk(spec)) is not None and not _may_be_shared(disk):
        yield _split_location(spec.state.location, disk)


def location_warnings(spec: AppSpec) -> Iterator[Problem]:
    """A warning if the location names one disk only where nodes share the directory that a pod template mounts."""
    if (disk := _split_disk(spec)) is not None and _may_be_shared(disk):
        yield _split_location(spec.state.location, disk)


def _split_disk(spec: AppSpec) -> StateDisk | None:
    """The disk of executors, if it is one of several that have their location."""
    disk = state_disk(spec.state.location, spec.runtime.executors.pod_template)
    try:
        return disk if names_several_disks(spec.state.location, disk) else None
    except LocationInvalidError:
        return None


def _may_be_shared(disk: StateDisk) -> bool:
    """Whether it is a directory of nodes that its user chose: what several nodes share may be mounted there."""
    return disk.of_template and disk.sharing is DiskSharing.NODE


def _split_location(location: str, disk: StateDisk) -> Problem:
    owner, telling = ("node", "{node.name}") if disk.sharing is DiskSharing.NODE else ("executor", "{pod.uid}")
    finer = "Pod" if location == "Node" else f"{location}/{telling}"
    shared = (
        f"check that all {owner}s with one location share this folder, or"
        if _may_be_shared(disk)
        else f"mount storage that they share (nfs, a volume claim) at {STATE_DIRECTORY} in "
        "spec.runtime.executors.podTemplate, or"
    )
    message = (
        f"spec.state.location {location} gives several {owner}s one location, but state is in a {disk.source} volume, "
        f"of which each {owner} has its own: tasks would go back to disks that lack their state and restore it each "
        f"time; {shared} write {finer}"
    )
    return Problem(Reason.LOCATION_SPLIT, message)


def count_problems(graph: Graph, sets: tuple[JoinSet, ...], counts: Mapping[str, DecidedCount]) -> Iterator[Problem]:
    """A problem for each join set whose streams have different partition counts."""
    disagreeing = [one for one in sets if len(_counts(one.streams, counts)) > 1]
    joins = [set(one.streams) for one in disagreeing if one.is_join]
    reported_sets = (one for one in disagreeing if one.is_join or _says_more(one, joins, counts))
    shown = {name: StreamCount(name, count.partitions, count.how) for name, count in counts.items()}
    for nth, join_set in enumerate(islice(reported_sets, MOST_PROBLEMS)):
        yield _mismatch(graph, join_set, shown, with_paths=nth < MOST_EXPLAINED)


def _counts(streams: tuple[str, ...], counts: Mapping[str, DecidedCount]) -> set[int]:
    return {counts[name].partitions for name in streams if name in counts}


def _says_more(keyed: JoinSet, joins: list[set[str]], counts: Mapping[str, DecidedCount]) -> bool:
    """Whether the counts of a keyed step disagree beyond the joins upstream of it, which are already reported."""
    inside = [join for join in joins if join <= set(keyed.streams)]
    rest = tuple(sorted(set(keyed.streams).difference(*inside)))
    return not inside or len(_counts(rest, counts)) > 1


def _mismatch(graph: Graph, join_set: JoinSet, counts: Mapping[str, StreamCount], *, with_paths: bool) -> Problem:
    streams = tuple(counts[name] for name in join_set.streams if name in counts)
    listed = ", ".join(f"{stream.name} has {stream.partitions}" for stream in streams)
    message = f"the streams that meet in {join_set.verb} {join_set.step} need one partition count, but {listed}"
    return Problem(
        Reason.PARTITION_COUNT_MISMATCH,
        message,
        step=join_set.step,
        streams=streams,
        paths=paths_to(graph, join_set.step, tuple(stream.name for stream in streams)) if with_paths else (),
    )


Mendable = Callable[[str], bool] | None
"""Selects steps that may get a repair; only the first such step gets one. None: every step does."""


def with_repairs(
    problems: list[Problem], situation: PlanDraft, needs: list[KeyNeed], mend_only: Mendable
) -> Iterator[Problem]:
    """Return the same problems, with repairs for the first steps that a repartition can help."""
    broken = {problem.step for problem in problems if problem.reason in MENDABLE}
    repairs: dict[str, Repair] = {}
    for need in needs:
        step = need.step.name
        if len(repairs) >= MOST_EXPLAINED:
            break
        if (
            step in broken
            and (mend_only is None or mend_only(step))
            and (repair := find_repair(situation, need)) is not None
        ):
            repairs[step] = repair
            if mend_only is not None:
                break
    for problem in problems:
        repair = repairs.get(problem.step or "") if problem.reason in MENDABLE else None
        yield problem if repair is None else replace(problem, repair=repair)


def unused_rows(graph: Graph) -> Iterator[Problem]:
    """A problem for each step, stream and table that nothing uses."""
    for name in graph.order:
        step = graph.steps[name]
        if name not in graph.readers and step.to is None and step.to_table is None:
            message = f"nobody reads the rows of {name}; write them with to, or remove the step"
            yield Problem(Reason.ROWS_UNUSED, message, step=name)
    for name in sorted(graph.streams):
        used = name in graph.readers or name in graph.stream_writers or name in graph.side_inputs
        if not used and name not in graph.dead_letters:
            yield Problem(Reason.ROWS_UNUSED, f"no step or table uses stream {name}", stream=name)
    for name in sorted(graph.tables):
        if name not in graph.lookups and name not in graph.called_with:
            yield Problem(Reason.ROWS_UNUSED, f"no lookup or process reads table {name}", stream=name)


def empty_tables(graph: Graph) -> Iterator[Problem]:
    """A problem for each table without sources, files and steps that write it."""
    for name, table in sorted(graph.tables.items()):
        if table.sources is None and table.files is None and name not in graph.table_writers:
            message = f"nothing feeds table {name}: give it sources or files, or write to it with toTable"
            yield Problem(Reason.TABLE_EMPTY, message, stream=name)


def letters_of_tables(graph: Graph) -> Iterator[Problem]:
    """A problem for each side input of a Broadcast table that wants dead letters: every location would write them."""
    for name, table in sorted(graph.tables.items()):
        for source in table.sources or () if table.distribution == "Broadcast" else ():
            if graph.streams[source].on_decode_error == "DeadLetter":
                message = (
                    f"every location reads {source} for table {name}, and each would write its dead letters; set its "
                    "onDecodeError to Skip or Fail, or make the table Partitioned"
                )
                yield Problem(Reason.DEAD_LETTERS_REPEATED, message, stream=source)


def repeated_inside(graph: Graph, spreads: dict[str, Spread]) -> Iterator[Problem]:
    """A problem for each step that writes broadcast rows to an intermediate stream, where they would count many times.

    Every task has all broadcast rows, so each task would write them again.
    """
    for name in graph.order:
        step = graph.steps[name]
        source = spreads.get(step.inputs[0])
        if source is not None and source.repeated and makes_stream(step):
            message = (
                f"every task has the broadcast rows that reach {name} and would write them again, once per task; "
                f"{step.verb} them where they come from, before they are broadcast"
            )
            yield Problem(Reason.BROADCAST_REPEATED, message, step=name)


def repeated_rows(graph: Graph, spreads: dict[str, Spread]) -> Iterator[Problem]:
    """A problem for each step that writes broadcast rows to a stream: each task writes them again."""
    for name in graph.order:
        step = graph.steps[name]
        source = spreads.get(step.inputs[0])
        if source is not None and source.repeated and step.to is not None:
            message = (
                f"every task has the broadcast rows that reach {name}, so each task writes them; "
                f"write them where they come from, before broadcast"
            )
            yield Problem(Reason.BROADCAST_REPEATED, message, step=name)


def setting_problems(systems: Iterable[System]) -> Iterator[Problem]:
    """A problem for each Kafka setting that Holdfast passes to no client."""
    for system in systems:
        for key in sorted(system.kafka.config) if system.kafka is not None else ():
            fault = unacceptable_name(key)
            if fault is not None:
                yield Problem(Reason.INVALID_SPEC, f"spec.systems: config of {system.name}: {fault}")


def registry_problems(spec: AppSpec) -> Iterator[Problem]:
    """A problem for each stream whose records need a schema that only a registry could have, and there is none."""
    without = {system.name for system in spec.systems if system.kafka is None or system.kafka.registry is None}
    for stream in spec.streams:
        known = RECORD_FORMATS.get(stream.format)
        if known is None or stream.system not in without:
            continue
        if known.needs_registry:
            message = (
                f"records of format {stream.format} begin with the id of a schema in a registry, and system "
                f"{stream.system} has none; name it in kafka.registry, or set format: json for records without ids"
            )
            yield Problem(Reason.SCHEMA_INVALID, message, stream=stream.name)
        elif known.made is None and written_schema(stream) is None:
            message = (
                f"stream {stream.name} has format {stream.format}, and neither a schema nor a registry: set "
                f"{known.field}.schema, or kafka.registry of system {stream.system}"
            )
            yield Problem(Reason.SCHEMA_MISSING, message, stream=stream.name)


def topic_problems(app: str, graph: Graph) -> Iterator[Problem]:
    """A problem for each topic with two names whose declarations contradict each other."""
    made = {f"{app}-{name}": name for name in graph.made()}
    first: dict[tuple[str, str], str] = {}
    for name in sorted(graph.streams):
        stream = graph.streams[name]
        topic = stream.topic or name
        if topic in made:
            message = f"topic {topic} of stream {name} is the intermediate stream of step {made[topic]}; rename one"
            yield Problem(Reason.TOPIC_SHARED, message, stream=name)
        other = graph.streams[first.setdefault((stream.system, topic), name)]
        if (
            stream.partition_key is not None
            and other.partition_key is not None
            and (stream.partition_key, stream.partitioner) != (other.partition_key, other.partitioner)
        ):
            message = (
                f"streams {other.name} and {name} mean one topic, {topic}, but the spec says that it is partitioned by "
                f"{', '.join(other.partition_key)} ({other.partitioner}) and by {', '.join(stream.partition_key)} "
                f"({stream.partitioner})"
            )
            yield Problem(Reason.TOPIC_SHARED, message, stream=name)
        counts = {stream.partitions, other.partitions} - {None}
        if len(counts) > 1:
            message = (
                f"streams {other.name} and {name} mean one topic, {topic}, but the spec gives it {other.partitions} "
                f"and {stream.partitions} partitions"
            )
            yield Problem(Reason.TOPIC_SHARED, message, stream=name)


def topic_warnings(graph: Graph, reaching: Reaching) -> Iterator[Problem]:
    """A warning for each topic read under one name and written under another, and each stream that feeds itself."""
    names: dict[tuple[str, str], list[str]] = {}
    for name in sorted(graph.streams):
        stream = graph.streams[name]
        names.setdefault((stream.system, stream.topic or name), []).append(name)
    for (_, topic), same in names.items():
        written = [name for name in same if name in graph.stream_writers]
        read = [name for name in same if name in graph.readers]
        if len(same) > 1 and written and read:
            message = (
                f"topic {topic} is written as {written[0]} and read as {read[0]}; use one name, so that it is seen"
            )
            yield Problem(Reason.TOPIC_SHARED, message, stream=written[0])
    yield from _circles(graph, reaching)


def _circles(graph: Graph, reaching: Reaching) -> Iterator[Problem]:
    feeds = {
        stream: {name for step in steps for name in reaching.along(graph.steps[step].inputs[0])}
        for stream, steps in graph.stream_writers.items()
    }
    feeds |= {name: set(reaching.along(graph.steps[name].inputs[0])) for name in graph.made()}
    for stream in sorted(graph.stream_writers):
        upstream_streams: set[str] = set()
        todo = [stream]
        while todo:
            fresh = feeds.get(todo.pop(), set()) - upstream_streams
            upstream_streams |= fresh
            todo += fresh
        if stream in upstream_streams:
            message = f"rows written to {stream} are read again by the steps that wrote them; make sure that this ends"
            yield Problem(Reason.STREAM_CIRCLE, message, stream=stream)


MOST_EXPLAINED = 20
"""Most problems that get a repair or paths: finding a repair means planning its result."""
