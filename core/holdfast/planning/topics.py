"""Why: streams are names; two names may mean one topic, and rows may come back to where they came from.

Systems have settings, some of which no client is given.

Must not ask brokers: it compares what the spec says.
"""

from collections.abc import Iterable, Iterator

from holdfast.planning.graph import Graph
from holdfast.planning.join_sets import Reaching
from holdfast.planning.problems_part import Problem
from holdfast.reasons import Reason
from holdfast.spec.kafka_settings import unacceptable_name
from holdfast.spec.streams import System


def setting_problems(systems: Iterable[System]) -> Iterator[Problem]:
    """Settings that no client is given, wherever it runs."""
    for system in systems:
        for key in sorted(system.kafka.config) if system.kafka is not None else ():
            fault = unacceptable_name(key)
            if fault is not None:
                yield Problem(Reason.INVALID_SPEC, f"spec.systems: config of {system.name}: {fault}")


def topic_problems(app: str, graph: Graph) -> Iterator[Problem]:
    """Names that contradict each other over one topic."""
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
            stream.key is not None
            and other.key is not None
            and (stream.key, stream.partitioner)
            != (
                other.key,
                other.partitioner,
            )
        ):
            message = (
                f"streams {other.name} and {name} mean one topic, {topic}, but the spec says that it is partitioned by "
                f"{', '.join(other.key)} ({other.partitioner}) and by {', '.join(stream.key)} ({stream.partitioner})"
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
    """Topics that are read under one name and written under another, and streams that feed themselves."""
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
        seen: set[str] = set()
        todo = [stream]
        while todo:
            fresh = feeds.get(todo.pop(), set()) - seen
            seen |= fresh
            todo += fresh
        if stream in seen:
            message = f"rows written to {stream} are read again by the steps that wrote them; make sure that this ends"
            yield Problem(Reason.STREAM_CIRCLE, message, stream=stream)
