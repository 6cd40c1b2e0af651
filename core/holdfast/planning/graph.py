"""The graph of an app: who reads whom, which tables tie whom together, in which order rows flow.

Built once per plan. The order depends on names and edges alone, never on the order of a file. Must not judge: a
circle is only noted here.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.spec.app import AppSpec
from holdfast.spec.steps import Step
from holdfast.spec.streams import Stream, Table


@dataclass(frozen=True, slots=True)
class Graph:
    """Streams, steps and tables by name, and the edges between them."""

    streams: dict[str, Stream]
    steps: dict[str, Step]
    tables: dict[str, Table]
    order: tuple[str, ...]
    """Steps, each behind those it reads, and behind the writers of a table it looks up unless that is a circle."""
    circle: tuple[str, ...]
    """Steps that read each other in a circle. They and those behind them are not in `order`."""
    readers: dict[str, tuple[str, ...]]
    """Stream or step -> the steps that read it."""
    stream_writers: dict[str, tuple[str, ...]]
    """Stream -> its `to` steps."""
    table_writers: dict[str, tuple[str, ...]]
    """Table -> its `toTable` steps."""
    lookups: dict[str, tuple[str, ...]]
    """Table -> its `lookup` steps."""
    side_inputs: frozenset[str]
    """Streams that feed tables."""

    def role(self, stream: str) -> str:
        """`input`, `output`, `intermediate` or `sideInput`; a stream nobody uses counts as an output."""
        if stream in self.steps:
            return "intermediate"
        read, written = bool(self.readers.get(stream)), bool(self.stream_writers.get(stream))
        if read:
            return "intermediate" if written else "input"
        return "sideInput" if stream in self.side_inputs and not written else "output"

    def used(self, stream: str) -> bool:
        """Whether a step reads or writes it."""
        return stream in self.readers or stream in self.stream_writers

    def made(self) -> tuple[str, ...]:
        """Steps that make an intermediate stream, in order of flow."""
        return tuple(name for name in self.order if makes_stream(self.steps[name]))


def makes_stream(step: Step) -> bool:
    """Whether what reads this step starts from a new intermediate stream."""
    return step.repartition is not None or step.broadcast is not None


def build_graph(spec: AppSpec) -> Graph:
    """The graph of a spec whose names resolve (the rules of the spec have seen to that)."""
    steps = {step.name: step for step in spec.steps}
    readers: dict[str, set[str]] = defaultdict(set)
    stream_writers: dict[str, set[str]] = defaultdict(set)
    table_writers: dict[str, set[str]] = defaultdict(set)
    lookups: dict[str, set[str]] = defaultdict(set)
    for step in spec.steps:
        for name in step.inputs:
            readers[name].add(step.name)
        if step.to is not None:
            stream_writers[step.to].add(step.name)
        if step.to_table is not None:
            table_writers[step.to_table].add(step.name)
        if step.lookup is not None:
            lookups[step.lookup.table].add(step.name)
    order = _order(steps, readers, table_writers, lookups)
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
        side_inputs=frozenset(source for table in spec.tables for source in table.sources or ()),
    )


def _circle(stuck: set[str], readers: dict[str, set[str]]) -> tuple[str, ...]:
    """Of the steps without an order, those that are not merely behind a circle."""
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
    """Kahn's algorithm by name; where only tables stand in the way, the first look-up goes ahead of its writers."""
    waits_for = {name: len({read for read in step.inputs if read in steps}) for name, step in steps.items()}
    # A writer that is also a reader of its own table must not wait for itself.
    virtual = {
        name: len(table_writers.get(step.lookup.table, set()) - {name}) if step.lookup else 0
        for name, step in steps.items()
    }
    ready = [name for name in steps if not waits_for[name] and not virtual[name]]
    held = [name for name in steps if not waits_for[name] and virtual[name]]
    heapq.heapify(ready)
    heapq.heapify(held)
    order: list[str] = []
    done: set[str] = set()
    circles: _Circles | None = None
    while ready or held:
        if not ready:
            held = [name for name in held if name not in done and virtual[name]]
            if not held:
                break
            circles = circles or _Circles.of(steps, readers, table_writers, lookups)
            ready.append(circles.first(held, done))
        name = heapq.heappop(ready)
        if name in done:
            continue
        done.add(name)
        order.append(name)
        for reader in readers.get(name, ()):
            waits_for[reader] -= 1
            if not waits_for[reader]:
                heapq.heappush(held if virtual[reader] else ready, reader)
        for lookup in _freed(steps[name], lookups, done):
            virtual[lookup] -= 1
            if not virtual[lookup] and not waits_for[lookup]:
                heapq.heappush(ready, lookup)
    return tuple(order)


@dataclass(frozen=True, slots=True)
class _Circles:
    """Who comes before and behind whom, as bits: a step may be on hundreds of circles, each looked for again."""

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
        bit = {name: 1 << at for at, name in enumerate(steps)}

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

    def first(self, held: Iterable[str], done: set[str]) -> str:
        """The first look-up that waits for nothing but itself: others wait rightly, and would miss rows."""
        at = {name: number for number, name in enumerate(self.names)}
        left = ~sum(1 << at[name] for name in done)
        for name in sorted(held):
            if not _reached(at[name], self.before, left) & ~_reached(at[name], self.behind, -1):
                return name
        return min(held)


def _reached(start: int, onward: tuple[int, ...], among: int) -> int:
    seen, todo = 0, onward[start] & among
    while todo:
        one = todo & -todo
        seen |= one
        todo = (todo | onward[one.bit_length() - 1] & among) & ~seen
    return seen


def _freed(step: Step, lookups: dict[str, set[str]], done: set[str]) -> Iterable[str]:
    """Look-ups that waited for this writer."""
    return () if step.to_table is None else lookups.get(step.to_table, set()) - done
