"""The picture of a plan as labelled cards and edges, with the streams that must agree: the input of every format.

Join sets with the same streams are one agreement with one letter, however many steps repeat it; sets of a single
stream are left out. The order is by name and flow, never that of the spec file, so that the same app gives the same
picture. Must not check the plan or its counts, know a format, or leave anything out: the drawing shortens what is too
long for a page.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from holdfast.planning.graph import Graph, build_graph, makes_stream
from holdfast.planning.partition_counts import DecidedCount, JoinSet, Reaching
from holdfast.planning.picture.parts import Agreement, Picture, PictureCard, PictureEdge, PictureNote
from holdfast.planning.plan import Plan, PlannedStep, PlannedStream, PlannedTable
from holdfast.planning.problems import Problem
from holdfast.planning.spread import Spread
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from holdfast.spec.steps import (
    Aggregate,
    Apply,
    Broadcast,
    Deduplicate,
    Filter,
    Join,
    Lookup,
    Merge,
    Process,
    Repartition,
    Select,
    Step,
    To,
    ToTable,
)


@dataclass(frozen=True, slots=True)
class GraphLink:
    """An edge by the names of its ends; with `stores`, a step writes a table."""

    kind: Literal["reads", "looks up", "writes", "stores", "feeds", "dead letters"]
    source: str
    target: str


def agreements_of(sets: tuple[JoinSet, ...], counts: Mapping[str, DecidedCount]) -> tuple[Agreement, ...]:
    """Return one agreement for each distinct set of at least two streams, in flow order."""
    steps: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for join_set in sets:
        if len(join_set.streams) > 1:
            steps.setdefault(join_set.streams, []).append((join_set.step, join_set.verb))
    return tuple(
        Agreement(
            steps=tuple(reasons),
            streams=streams,
            partitions=_counts(counts.get(name) for name in streams),
            kept=len({counts[name].partitions for name in streams if name in counts}) <= 1,
        )
        for streams, reasons in steps.items()
    )


def bound_links(graph: Graph, agreements: tuple[Agreement, ...]) -> dict[GraphLink, tuple[int, ...]]:
    """Return link -> the agreements whose streams flow along it, each up to the nearest step that needs one.

    Without that limit the first edges of a cascade of joins would have the colours of all joins downstream.
    """
    asked_by = {step: index for index, agreement in enumerate(agreements) for step, _ in agreement.steps}
    agreements_of_link: dict[GraphLink, set[int]] = {}
    for step, index in asked_by.items():
        for link in _towards(graph, step, asked_by):
            agreements_of_link.setdefault(link, set()).add(index)
    return {link: tuple(sorted(indices)) for link, indices in agreements_of_link.items()}


def _towards(graph: Graph, target: str, stops: Mapping[str, int]) -> set[GraphLink]:
    """The links by which rows whose partition counts matter reach a step, walked upstream."""
    links: set[GraphLink] = set()
    waiting = list(_into_step(graph, target))
    lookup = graph.steps[target].lookup
    if lookup is not None:
        # Side inputs matter only at the look-up itself; their rows do not flow on from there.
        waiting += [GraphLink("feeds", source, lookup.table) for source in graph.tables[lookup.table].sources or ()]
    while waiting:
        link = waiting.pop()
        if link in links:
            continue
        links.add(link)
        if link.kind == "looks up":
            waiting += [GraphLink("stores", writer, link.source) for writer in graph.table_writers.get(link.source, ())]
        elif link.kind != "feeds" and link.source not in stops and not _is_stream(graph, link.source):
            waiting += _into_step(graph, link.source)
    return links


def _into_step(graph: Graph, name: str) -> Iterator[GraphLink]:
    """The links into a step whose partition counts matter: not those of a broadcast or of a Broadcast table."""
    step = graph.steps[name]
    for source in step.inputs:
        if source in graph.streams or graph.steps[source].broadcast is None:
            yield GraphLink("reads", source, name)
    if step.lookup is not None and graph.tables[step.lookup.table].distribution == "Partitioned":
        yield GraphLink("looks up", step.lookup.table, name)


def _is_stream(graph: Graph, name: str) -> bool:
    return name in graph.streams or makes_stream(graph.steps[name])


def picture_of(plan: Plan, app: StreamApp) -> Picture:
    """Return the picture of a plan; `app` is the app it was made from, for the settings of its steps."""
    graph = build_graph(app.spec)
    counts = {stream.name: stream.count for stream in plan.streams if stream.count is not None}
    agreements = agreements_of(plan.sets, counts)
    problems = _notes(plan.problems, first=1)
    warnings = _notes(plan.warnings, first=1 + len(problems))
    return Picture(
        app=plan.app,
        valid=plan.valid,
        tasks=len(plan.tasks),
        cards=tuple(_marked(_cards(plan, graph), agreements, plan)),
        edges=tuple(_Flows(plan, graph, counts, agreements).edges()),
        agreements=agreements,
        problems=problems,
        warnings=warnings,
    )


def _notes(problems: tuple[Problem, ...], first: int) -> tuple[PictureNote, ...]:
    return tuple(
        PictureNote(
            number=number,
            reason=problem.reason.value,
            subject=problem.step or problem.stream or "",
            message=problem.message,
            repair=problem.repair.summary if problem.repair else "",
        )
        for number, problem in enumerate(problems, start=first)
    )


def _cards(plan: Plan, graph: Graph) -> Iterator[PictureCard]:
    """The cards: streams, steps in flow order, tables."""
    made = {stream.name: stream for stream in plan.streams if stream.name in graph.steps}
    for stream in plan.streams:
        if stream.name not in made:
            yield _stream(stream)
    for planned in plan.steps:
        yield _step(planned, graph.steps[planned.name], made.get(planned.name))
    # The plan does not contain the steps of a cycle, but a picture without them would not explain the problem.
    for name in graph.circle:
        step = graph.steps[name]
        yield PictureCard(f"step:{name}", "step", name, step.verb, "", tuple(_details(step)))
    for table in plan.tables:
        yield _table(table)


def _stream(stream: PlannedStream) -> PictureCard:
    return PictureCard(
        id=f"stream:{stream.name}",
        kind="stream",
        name=stream.name,
        tag="side input" if stream.role == "sideInput" else stream.role,
        key=", ".join(stream.key or ()),
        details=(_partitions(stream.count),),
        more=_origin(stream.count),
    )


def _step(planned: PlannedStep, step: Step, made: PlannedStream | None) -> PictureCard:
    return PictureCard(
        id=f"step:{planned.name}",
        kind="step",
        name=planned.name,
        tag=planned.verb,
        key=_key(planned.spread),
        details=tuple(_details(step)) if made is None else (_partitions(made.count),),
        makes_stream=made is not None,
        more=_origin(made.count) if made is not None else f"partition key {planned.spread.text}",
    )


def _table(table: PlannedTable) -> PictureCard:
    broadcast = table.distribution == "Broadcast"
    return PictureCard(
        id=f"table:{table.name}",
        kind="table",
        name=table.name,
        tag="broadcast table" if broadcast else "table",
        key=", ".join(table.key),
        details=("one copy per location" if broadcast else "one part per task",),
    )


def _details(step: Step) -> Iterator[str]:
    """The settings of a step's verb, without those that edges show anyway."""
    match step.operation:
        case Filter(condition):
            yield condition
        case Select(columns):
            yield ", ".join(columns)
        case Apply(function=function):
            yield function
        case Process(function=function, by=by, form=form):
            yield function if form == "Rows" else f"{function}, batches"
            yield f"by {', '.join(by)}"
        case Deduplicate(by=by, within=within):
            yield f"by {', '.join(by)}{f', within {within}' if within else ''}"
        case Aggregate() as aggregate:
            yield _grouping(aggregate)
            yield ", ".join(aggregate.compute)
        case Join() as join:
            yield _matching(join)
        case Lookup(by=by, type=kind):
            yield f"by {', '.join(by)}{', inner' if kind == 'Inner' else ''}"
        case Merge() | Repartition() | Broadcast() | To() | ToTable():
            return
        case never:
            assert_never(never)


def _grouping(aggregate: Aggregate) -> str:
    text = f"by {', '.join(aggregate.by)}"
    if aggregate.session:
        return f"{text}, sessions of {aggregate.session}"
    if aggregate.window:
        return f"{text}, {aggregate.window} windows" + (f" every {aggregate.slide}" if aggregate.slide else "")
    return text


def _matching(join: Join) -> str:
    kind = "" if join.type == "Inner" else f", {join.type.lower()} outer"
    return f"by {', '.join(join.by)} {join.span}{kind}"


def _key(spread: Spread) -> str:
    if spread.everywhere:
        return "every task"
    if spread.columns is None:
        return "key lost" if spread.why else "no key"
    return spread.text


def _partitions(count: DecidedCount | None) -> str:
    """The count of a stream and who decided it: `16 partitions · topic`."""
    if count is None:
        return "partitions unknown"
    if count.grown_to is not None:
        return f"{count.grown_to} partitions, built for {count.partitions}"
    origin = count.decided_by.replace("join:", "join ")
    return f"{count.partitions} partition{'' if count.partitions == 1 else 's'} · {origin}"


def _origin(count: DecidedCount | None) -> str:
    return "nothing says how many partitions it has" if count is None else count.how


def _counts(counts: Iterable[DecidedCount | None]) -> str:
    """The distinct counts of streams that flow together, the largest first: `16/8`; `8→16` if it has grown since."""
    distinct: dict[str, int] = {}
    for count in counts:
        if count is None:
            distinct["?"] = 0
        else:
            grown = "" if count.grown_to is None else f"→{count.grown_to}"
            distinct[f"{count.partitions}{grown}"] = count.partitions
    return "/".join(sorted(distinct, key=lambda text: (-distinct[text], text)))


def _marked(cards: Iterable[PictureCard], agreements: tuple[Agreement, ...], plan: Plan) -> Iterator[PictureCard]:
    """The cards with their agreements and the numbers of their problems and warnings."""
    members: dict[str, list[int]] = defaultdict(list)
    for index, agreement in enumerate(agreements):
        for name in sorted({*agreement.streams, *(step for step, _ in agreement.steps)}):
            members[name].append(index)
    problems = _numbers(plan.problems, first=1)
    warnings = _numbers(plan.warnings, first=1 + len(plan.problems))
    for card in cards:
        # Streams and steps share one namespace, tables have their own.
        yield replace(
            card,
            agreements=() if card.kind == "table" else tuple(members.get(card.name, ())),
            problems=_said_of(card, problems),
            warnings=_said_of(card, warnings),
        )


Numbers = Mapping[tuple[str, str], list[int]]


def _numbers(problems: tuple[Problem, ...], first: int) -> Numbers:
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, problem in enumerate(problems, start=first):
        subject = ("step", problem.step) if problem.step is not None else ("stream", problem.stream or "")
        numbers[subject].append(number)
    return numbers


def _said_of(card: PictureCard, numbers: Numbers) -> tuple[int, ...]:
    of_step = numbers.get(("step", card.name), []) if card.kind == "step" else []
    of_stream = numbers.get(("stream", card.name), []) if card.kind != "step" or card.makes_stream else []
    return tuple(sorted([*of_step, *of_stream]))


@dataclass(frozen=True, slots=True)
class _Flows:
    """The edges of a picture, and what their labels need."""

    plan: Plan
    graph: Graph
    counts: dict[str, DecidedCount]
    agreements: tuple[Agreement, ...]

    def edges(self) -> Iterator[PictureEdge]:
        """All edges; those into one card in the order in which it reads them."""
        along = self._along()
        bound = bound_links(self.graph, self.agreements)
        clashing = {one.step for one in self.plan.problems if one.reason is Reason.PARTITION_COUNT_MISMATCH}
        for link in self._links():
            in_table = link.kind == "looks up"
            streams = self._in_table(link.source, along) if in_table else along.get(link.source, ())
            yield PictureEdge(
                source=self._id(link.source, table=link.kind == "looks up"),
                target=self._id(link.target, table=link.kind in ("stores", "feeds")),
                kind="writes" if link.kind == "stores" else link.kind,
                partitions="" if link.kind == "dead letters" else _counts(map(self.counts.get, streams)),
                agreements=bound.get(link, ()),
                wrong=link.kind in ("reads", "looks up") and link.target in clashing,
            )

    def _along(self) -> dict[str, tuple[str, ...]]:
        """Stream or step -> the streams whose rows its readers get."""
        reaching = Reaching(self.graph)
        along: dict[str, tuple[str, ...]] = {name: (name,) for name in self.graph.streams}
        for name in self.graph.order:
            # The count of a broadcast stream constrains no step, but its readers read it.
            along[name] = (name,) if makes_stream(self.graph.steps[name]) else reaching.along(name)
        return along

    def _in_table(self, name: str, along: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """The streams whose rows are in a table; none for a Broadcast table, whose counts constrain no step."""
        table = self.graph.tables[name]
        if table.distribution == "Broadcast":
            return ()
        feeds = (*(table.sources or ()), *self.graph.table_writers.get(name, ()))
        return tuple(sorted({stream for feed in feeds for stream in along.get(feed, ())}))

    def _links(self) -> Iterator[GraphLink]:
        for name in (*self.graph.order, *self.graph.circle):
            step = self.graph.steps[name]
            for source in step.inputs:
                yield GraphLink("reads", source, name)
            if step.lookup is not None:
                yield GraphLink("looks up", step.lookup.table, name)
            for read in step.function_tables:
                yield GraphLink("looks up", read, name)
            if step.to is not None:
                yield GraphLink("writes", name, step.to)
            if step.to_table is not None:
                yield GraphLink("stores", name, step.to_table)
        for name, table in sorted(self.graph.tables.items()):
            for source in table.sources or ():
                yield GraphLink("feeds", source, name)
        yield from self._dead_letters()

    def _dead_letters(self) -> Iterator[GraphLink]:
        steps = {name: self.graph.steps[name].dead_letter for name in (*self.graph.order, *self.graph.circle)}
        streams = {name: stream.dead_letter for name, stream in sorted(self.graph.streams.items())}
        for name, letters in (*steps.items(), *streams.items()):
            if letters is not None:
                yield GraphLink("dead letters", name, letters)

    def _id(self, name: str, *, table: bool) -> str:
        if table:
            return f"table:{name}"
        return f"step:{name}" if name in self.graph.steps else f"stream:{name}"
