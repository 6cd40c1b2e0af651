"""Why: which streams must agree, as a reader sees it: one letter for each constraint, and the edges it travels along.

Join sets with the same streams are one constraint, however many steps repeat it. Sets of a single stream are left out:
a stream agrees with itself. Must not judge counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.planning.graph import Graph, makes_stream
from holdfast.planning.join_sets import JoinSet
from holdfast.planning.partition_counts import DecidedCount
from holdfast.planning.picture.parts import Agreement
from holdfast.planning.picture.wording import counts_text


@dataclass(frozen=True, slots=True)
class GraphLink:
    """An edge by the plain names of its ends; `stores` is a step that writes a table."""

    kind: Literal["reads", "looks up", "writes", "stores", "feeds", "dead letters"]
    source: str
    target: str


def agreements_of(sets: tuple[JoinSet, ...], counts: Mapping[str, DecidedCount]) -> tuple[Agreement, ...]:
    """One for each distinct set of at least two streams, in order of flow."""
    steps: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for one in sets:
        if len(one.streams) > 1:
            steps.setdefault(one.streams, []).append((one.step, one.verb))
    return tuple(
        Agreement(
            steps=tuple(reasons),
            streams=streams,
            partitions=counts_text(counts.get(name) for name in streams),
            kept=len({counts[name].partitions for name in streams if name in counts}) <= 1,
        )
        for streams, reasons in steps.items()
    )


def bound_links(graph: Graph, agreements: tuple[Agreement, ...]) -> dict[GraphLink, tuple[int, ...]]:
    """Link -> the agreements whose streams flow along it, each shown up to the nearest step that calls for one.

    Without that limit the first edges of a cascade of joins would carry the colour of every join behind them.
    """
    asked_by = {step: index for index, one in enumerate(agreements) for step, _ in one.steps}
    found: dict[GraphLink, set[int]] = {}
    for step, index in asked_by.items():
        for link in _towards(graph, step, asked_by):
            found.setdefault(link, set()).add(index)
    return {link: tuple(sorted(indices)) for link, indices in found.items()}


def _towards(graph: Graph, target: str, stops: Mapping[str, int]) -> set[GraphLink]:
    """The links by which rows that bind come to a step, walked backwards."""
    seen: set[GraphLink] = set()
    waiting = list(_into_step(graph, target))
    lookup = graph.steps[target].lookup
    if lookup is not None:
        # Side inputs tie in at the look-up itself; they do not flow on from there.
        waiting += [GraphLink("feeds", source, lookup.table) for source in graph.tables[lookup.table].sources or ()]
    while waiting:
        link = waiting.pop()
        if link in seen:
            continue
        seen.add(link)
        if link.kind == "looks up":
            waiting += [GraphLink("stores", writer, link.source) for writer in graph.table_writers.get(link.source, ())]
        elif link.kind != "feeds" and link.source not in stops and not _is_stream(graph, link.source):
            waiting += _into_step(graph, link.source)
    return seen


def _into_step(graph: Graph, name: str) -> Iterator[GraphLink]:
    """What binds a step: not a broadcast, whose rows are in every task, nor a Broadcast table."""
    step = graph.steps[name]
    for source in step.inputs:
        if source in graph.streams or graph.steps[source].broadcast is None:
            yield GraphLink("reads", source, name)
    if step.lookup is not None and graph.tables[step.lookup.table].distribution == "Partitioned":
        yield GraphLink("looks up", step.lookup.table, name)


def _is_stream(graph: Graph, name: str) -> bool:
    return name in graph.streams or makes_stream(graph.steps[name])
