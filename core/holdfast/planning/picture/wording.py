"""The words on a node beyond its name: settings of a step's verb, how rows are spread, partition counts.

Only the words of a spec that a reader needs to follow the rows. Must not shorten anything: the drawing does.
"""

from collections.abc import Iterable, Iterator

from holdfast.planning.keys import Spread
from holdfast.planning.partition_counts import DecidedCount
from holdfast.planning.picture.parts import DetailLine, Partitions
from holdfast.spec.steps import Aggregate, Join, Step


def details(step: Step) -> tuple[DetailLine, ...]:
    """Return the settings of a step's verb, without those that edges show anyway."""
    return tuple(_lines(step))


def _lines(step: Step) -> Iterator[DetailLine]:
    if step.filter is not None:
        yield DetailLine(step.filter, code=True)
    elif step.select is not None:
        yield DetailLine(", ".join(step.select), code=True)
    elif step.apply is not None:
        yield DetailLine(step.apply.function, code=True)
    elif step.process is not None:
        yield DetailLine(step.process.function, code=True)
        yield DetailLine(f"by {', '.join(step.process.by)}")
    elif step.deduplicate is not None:
        within = f", within {step.deduplicate.within}" if step.deduplicate.within else ""
        yield DetailLine(f"by {', '.join(step.deduplicate.by)}{within}")
    elif step.aggregate is not None:
        yield DetailLine(_grouping(step.aggregate))
        yield DetailLine(", ".join(step.aggregate.compute), code=True)
    elif step.join is not None:
        yield DetailLine(_matching(step.join))
    elif step.lookup is not None:
        inner = ", inner" if step.lookup.type == "Inner" else ""
        yield DetailLine(f"on {', '.join(step.lookup.on)}{inner}")


def _grouping(aggregate: Aggregate) -> str:
    text = f"by {', '.join(aggregate.by)}"
    if aggregate.session:
        return f"{text}, sessions of {aggregate.session}"
    if aggregate.window:
        return f"{text}, {aggregate.window} windows" + (f" every {aggregate.slide}" if aggregate.slide else "")
    return text


def _matching(join: Join) -> str:
    kind = "" if join.type == "Inner" else f", {join.type.lower()} outer"
    return f"on {', '.join(join.on)} within {join.within}{kind}"


def short_key(spread: Spread) -> str:
    """Return how rows are spread, for a label."""
    if spread.everywhere:
        return "every task"
    if spread.columns is None:
        return "key lost" if spread.why else "no key"
    return spread.text


def key_in_words(spread: Spread) -> str:
    """Return how rows are spread, for a tooltip."""
    if spread.everywhere:
        return "all rows in every task"
    if spread.columns is None:
        return f"partition key lost: {spread.why}" if spread.why else "no partition key declared"
    return f"partitioned by {spread.text} ({spread.partitioner})"


def partitions_of(count: DecidedCount | None) -> Partitions:
    """Return the count of a stream with its origin."""
    if count is None:
        return Partitions("?", "", "nothing says how many partitions it has")
    return Partitions(_short(count), count.decided_by, count.how)


def partitions_text(count: DecidedCount | None) -> str:
    """Return the count of a stream with its origin, for a label: `16 partitions · topic`."""
    if count is None:
        return "partitions unknown"
    origin = count.decided_by.replace("join:", "join ")
    if count.grown_to is not None:
        return f"{count.grown_to} partitions, built for {count.partitions}"
    return f"{count.partitions} partition{'' if count.partitions == 1 else 's'} · {origin}"


def counts_text(counts: Iterable[DecidedCount | None]) -> str:
    """Return the distinct counts of streams that flow together, the largest first: `16/8`."""
    distinct = {"?" if count is None else _short(count): count.partitions if count else 0 for count in counts}
    return "/".join(sorted(distinct, key=lambda text: (-distinct[text], text)))


def _short(count: DecidedCount) -> str:
    """`16`; or `8→16` if tasks were built for 8 partitions and there are 16 now."""
    return str(count.partitions) if count.grown_to is None else f"{count.partitions}→{count.grown_to}"
