"""The graph of an app: streams, steps and tables, who reads and writes which, and the order in which rows flow.

Built once per plan. The order depends only on names and edges, never on the order of the spec file. Must not report
problems: it only records a cycle.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.spec.app import AppSpec
from holdfast.spec.steps import Step
from holdfast.spec.streams import Stream, Table
from holdfast.spec.verbs import STREAM_VERBS


@dataclass(frozen=True, slots=True)
class Graph:
    """Streams, steps and tables by name, and the edges between them."""

    streams: dict[str, Stream]
    steps: dict[str, Step]
    tables: dict[str, Table]
    order: tuple[str, ...]
    """Steps, each after the steps it reads and, unless that is a cycle, after the writers of the table it looks up."""
    circle: tuple[str, ...]
    """Steps that read each other in a cycle. They and the steps downstream of them are not in `order`."""
    readers: dict[str, tuple[str, ...]]
    """Stream or step -> the steps that read it."""
    stream_writers: dict[str, tuple[str, ...]]
    """Stream -> its `to` steps."""
    table_writers: dict[str, tuple[str, ...]]
    """Table -> its `toTable` steps."""
    lookups: dict[str, tuple[str, ...]]
    """Table -> its `lookup` steps."""
    called_with: dict[str, tuple[str, ...]]
    """Table -> the `process` steps whose functions look rows up in it."""
    side_inputs: frozenset[str]
    """Streams that feed tables."""
    dead_letters: frozenset[str]
    """Streams that take dead letters."""
    written_topics: frozenset[tuple[str, str]]
    """System and topic of each stream that steps or dead letters write; it may be read under another name."""

    def role(self, stream: str) -> str:
        """Return `input`, `output`, `intermediate` or `sideInput`; an unused stream counts as an output."""
        if stream in self.steps:
            return "intermediate"
        read, written = bool(self.readers.get(stream)), bool(self.stream_writers.get(stream))
        if read:
            return "intermediate" if written else "input"
        return "sideInput" if stream in self.side_inputs and not written else "output"

    def is_input(self, stream: str) -> bool:
        """Whether others write this stream, and a step or a table reads it."""
        return self.role(stream) in ("input", "sideInput")

    def is_made(self, stream: str) -> bool:
        """Whether the app makes the topic of this stream of the spec where there is none."""
        declared = self.streams[stream]
        return not self.is_input(stream) or declared.create or _topic(declared) in self.written_topics

    def used(self, stream: str) -> bool:
        """Whether a step reads or writes this stream."""
        return stream in self.readers or stream in self.stream_writers

    def made(self) -> tuple[str, ...]:
        """Steps that create an intermediate stream, in flow order."""
        return tuple(name for name in self.order if makes_stream(self.steps[name]))


def makes_stream(step: Step) -> bool:
    """Whether this step writes a new intermediate stream, which its readers read."""
    return step.verb in STREAM_VERBS


def build_graph(spec: AppSpec) -> Graph:
    """Return the graph of a spec. Validation of the spec guarantees that its names resolve."""
    steps = {step.name: step for step in spec.steps}
    readers: dict[str, set[str]] = defaultdict(set)
    stream_writers: dict[str, set[str]] = defaultdict(set)
    table_writers: dict[str, set[str]] = defaultdict(set)
    lookups: dict[str, set[str]] = defaultdict(set)
    called_with: dict[str, set[str]] = defaultdict(set)
    for step in spec.steps:
        for name in step.inputs:
            readers[name].add(step.name)
        if step.to is not None:
            stream_writers[step.to].add(step.name)
        if step.to_table is not None:
            table_writers[step.to_table].add(step.name)
        if step.lookup is not None:
            lookups[step.lookup.table].add(step.name)
        for table in step.function_tables:
            called_with[table].add(step.name)
    order = _order(steps, readers, table_writers, lookups)
    dead_letters = spec.dead_letters
    return Graph(
        streams={stream.name: stream for stream in spec.streams},
        steps=steps,
        tables={table.name: table for table in spec.tables},
        order=order,
        circle=_circle(set(steps).difference(order), readers),
        readers=_sorted(readers),
        stream_writers=_sorted(stream_writers),
        table_writers=_sorted(table_writers),
        lookups=_sorted(lookups),
        called_with=_sorted(called_with),
        side_inputs=frozenset(source for table in spec.tables for source in table.sources or ()),
        dead_letters=dead_letters,
        written_topics=frozenset(
            _topic(stream) for stream in spec.streams if stream.name in dead_letters or stream.name in stream_writers
        ),
    )


def _topic(stream: Stream) -> tuple[str, str]:
    return stream.system, stream.topic or stream.name


def _circle(stuck: set[str], readers: dict[str, set[str]]) -> tuple[str, ...]:
    """The steps of a cycle: those without an order, minus the ones that are only downstream of a cycle."""
    while behind := {name for name in stuck if not readers.get(name, set()) & stuck}:
        stuck = stuck - behind
    return tuple(sorted(stuck))


def _sorted(edges: dict[str, set[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted(ends)) for name, ends in edges.items()}


def _order(
    steps: dict[str, Step],
    readers: dict[str, set[str]],
    table_writers: dict[str, set[str]],
    lookups: dict[str, set[str]],
) -> tuple[str, ...]:
    """Kahn's algorithm, ties by name. Where only a table makes a cycle, its first look-up goes before its writers."""
    waits_for = {name: len({read for read in step.inputs if read in steps}) for name, step in steps.items()}
    # A step that writes the table it looks up must not wait for itself.
    virtual = {
        name: len(table_writers.get(step.lookup.table, set()) - {name}) if step.lookup else 0
        for name, step in steps.items()
    }
    ready = [name for name in steps if not waits_for[name] and not virtual[name]]
    waiting_lookups = [name for name in steps if not waits_for[name] and virtual[name]]
    heapq.heapify(ready)
    heapq.heapify(waiting_lookups)
    order: list[str] = []
    done: set[str] = set()
    circles: _Circles | None = None
    while ready or waiting_lookups:
        if not ready:
            waiting_lookups = [name for name in waiting_lookups if name not in done and virtual[name]]
            if not waiting_lookups:
                break
            circles = circles or _Circles.of(steps, readers, table_writers, lookups)
            ready.append(circles.first(waiting_lookups, done))
        name = heapq.heappop(ready)
        if name in done:
            continue
        done.add(name)
        order.append(name)
        for reader in readers.get(name, ()):
            waits_for[reader] -= 1
            if not waits_for[reader]:
                heapq.heappush(waiting_lookups if virtual[reader] else ready, reader)
        for lookup in _freed(steps[name], lookups, done):
            virtual[lookup] -= 1
            if not virtual[lookup] and not waits_for[lookup]:
                heapq.heappush(ready, lookup)
    return tuple(order)


@dataclass(frozen=True, slots=True)
class _Circles:
    """The direct predecessors and successors of each step, as bit sets.

    Bit sets are fast enough for steps that are on hundreds of cycles, each of which is searched again.
    """

    names: tuple[str, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]

    @classmethod
    def of(
        cls,
        steps: dict[str, Step],
        readers: dict[str, set[str]],
        table_writers: dict[str, set[str]],
        lookups: dict[str, set[str]],
    ) -> "_Circles":
        bit = {name: 1 << number for number, name in enumerate(steps)}

        def bits(names: Iterable[str]) -> int:
            return sum({bit[name] for name in names if name in bit})

        before, behind = [], []
        for name, step in steps.items():
            writers = table_writers.get(step.lookup.table, set()) if step.lookup else set()
            before.append(bits({*step.inputs, *writers}))
            behind.append(
                bits(readers.get(name, set()) | (lookups.get(step.to_table, set()) if step.to_table else set()))
            )
        return cls(tuple(steps), tuple(before), tuple(behind))

    def first(self, waiting_lookups: Iterable[str], done: set[str]) -> str:
        """Return the first look-up that waits only for its own cycle: any other would run too early and miss rows."""
        index_by_name = {name: number for number, name in enumerate(self.names)}
        left = ~sum(1 << index_by_name[name] for name in done)
        for name in sorted(waiting_lookups):
            if not _reached(index_by_name[name], self.before, left) & ~_reached(index_by_name[name], self.behind, -1):
                return name
        return min(waiting_lookups)


def _reached(start: int, onward: tuple[int, ...], mask: int) -> int:
    reached, todo = 0, onward[start] & mask
    while todo:
        bit = todo & -todo
        reached |= bit
        todo = (todo | onward[bit.bit_length() - 1] & mask) & ~reached
    return reached


def _freed(step: Step, lookups: dict[str, set[str]], done: set[str]) -> Iterable[str]:
    """The look-ups that waited for this writer."""
    return () if step.to_table is None else lookups.get(step.to_table, set()) - done
