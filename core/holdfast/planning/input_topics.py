"""Topics of inputs that are not there: the problem, and which of the topics that are there may be meant.

Holdfast makes what an app writes. An input that it made for a mistyped name would stay empty for ever, and nobody would
be told; so it makes one only where the spec says `create`. The names that are there come from whoever asked the brokers
with the app's own login. Must not ask brokers.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from holdfast.planning.graph import Graph, build_graph
from holdfast.planning.partition_counts import DecidedCount
from holdfast.planning.problems import Problem
from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import Stream, System
from holdfast.suggest import nearest_names

TopicCounts = Mapping[str, int | None]


def missing_topics(
    graph: Graph, counts: Mapping[str, DecidedCount], topics: TopicCounts, near: Mapping[str, tuple[str, ...]]
) -> Iterator[Problem]:
    """A problem for each input and side input whose topic does not exist and can't be made.

    `topics`: stream -> partitions, None without a topic; `near`: stream -> topics that may be meant.
    """
    for name, stream in sorted(graph.streams.items()):
        if not graph.is_input(name) or topics.get(name, 0) is not None:
            continue
        missing = f"topic {stream.topic or name} of stream {name} does not exist in system {stream.system}"
        if not graph.is_made(name):
            yield Problem(Reason.TOPIC_MISSING, f"{missing}; {_cure(stream, near.get(name, ()))}", stream=name)
        elif name not in counts:
            message = f"{missing}; set partitions: N on the stream, with which it is made"
            yield Problem(Reason.TOPIC_MISSING, message, stream=name)


def _cure(stream: Stream, near: tuple[str, ...]) -> str:
    count = "" if stream.partitions is not None else " and partitions: N"
    cure = f"topic, make the topic, or set create: true{count} on the stream, and the app makes it"
    return f"did you mean {' or '.join(near)}? Correct {cure}" if near else f"correct {cure}"


def unknown_counts(graph: Graph, counts: Mapping[str, DecidedCount], topics: TopicCounts) -> Iterator[Problem]:
    """A problem for each input and side input whose partition count nothing tells."""
    for name in sorted(graph.streams):
        if graph.is_input(name) and name not in counts and topics.get(name, 0) is not None:
            message = (
                f"nothing says how many partitions {name} has: set partitions: N on the stream, "
                f"or give --partitions {name}=N"
            )
            yield Problem(Reason.PARTITION_COUNT_UNKNOWN, message, stream=name)


def near_inputs(
    spec: AppSpec, topics: TopicCounts, names_in: Callable[[System], Collection[str]]
) -> dict[str, tuple[str, ...]]:
    """Return stream -> topics that may be meant, for inputs that do not exist and that the app does not make.

    `names_in` asks a system which topics it has. Only those with such an input are asked: the answer is long.
    """
    graph = build_graph(spec)
    missing = [
        stream for name, stream in graph.streams.items() if topics.get(name, 0) is None and not graph.is_made(name)
    ]
    near: dict[str, tuple[str, ...]] = {}
    for system in spec.systems:
        if streams := [stream for stream in missing if stream.system == system.name]:
            names = names_in(system)
            near |= {stream.name: nearest_names(stream.topic or stream.name, names) for stream in streams}
    return near
