"""What an app must have written, worked out row by row from its tree: an interpreter of a few lines for each verb.

It is told what is fed and which tree reads it, turn by turn; all of a turn has been read before the next begins. When
an era ends, event time has passed everything before it, so what waited for event time comes out. It must know nothing
of tasks, batches, partitions or state on disk, and nothing of how the engine does it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any, NamedTuple

from holdfast.spec.values import millis
from holdfast.times import Micros, floor_millis, micros
from tests.pipelines.functions import GAP

Tree = Mapping[str, Any]


class Row(NamedTuple):
    """A row on its way."""

    k: str | None
    v: str | None
    n: int | None
    at: int
    """Its event time, in microseconds."""


def _length(duration: str) -> int:
    return micros(millis(duration))


def _sum(values: Sequence[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


FILTERS: Mapping[str, Callable[[Row], bool | None]] = {
    "n > 20": lambda row: row.n is not None and row.n > 20,
    "n % 3 <> 0": lambda row: row.n is not None and row.n % 3 != 0,
    "v <> 'v1'": lambda row: row.v is not None and row.v != "v1",
    "n IS NOT NULL": lambda row: row.n is not None,
}
SELECTS: Mapping[tuple[str, ...], Callable[[Row], Row]] = {
    ("k", "v", "n"): lambda row: row,
    ("n", "k", "v"): lambda row: row,
    ("k", "v || '+' AS v", "n"): lambda row: row._replace(v=None if row.v is None else row.v + "+"),
    ("k", "v", "coalesce(n, 7) AS n"): lambda row: row._replace(n=7 if row.n is None else row.n),
}
COMPUTES: Mapping[str, Callable[[Sequence[int | None]], int | None]] = {
    "count(*) AS n": len,
    "sum(n) AS n": _sum,
    "max(n) AS n": lambda values: max((value for value in values if value is not None), default=None),
    "min(n) AS n": lambda values: min((value for value in values if value is not None), default=None),
}


def join_select(on: str) -> list[str]:
    """Columns of a pair, from which both of its rows can be told; of a row without partner, its own."""
    other = "v" if on == "k" else "k"
    partner = f"coalesce(left.{other}, right.{other}) || '/' || coalesce(CAST(right.n AS STRING), '-') AS {other}"
    columns = {on: on, other: partner, "n": "coalesce(left.n, right.n) AS n"}
    return [columns[name] for name in ("k", "v", "n")]


class Oracle:
    """All that a run remembers, by step or table; and what it has written, by topic."""

    def __init__(self) -> None:
        self.written = defaultdict[str, list[Row]](list)
        self.late = 0
        self._state = defaultdict[str, dict[Any, Any]](dict)
        self._fed = defaultdict[str, list[Row]](list)
        self._tables = defaultdict[str, dict[Any, Row]](dict)

    def turn(
        self,
        tree: Tree,
        fed: Mapping[str, Sequence[Row]],
        *,
        over: bool = False,
        ended: bool = False,
        late: bool = False,
    ) -> None:
        """Go on by what was fed.

        `over`: all windows are over, and nothing finds a partner any more; `late`: they were before these rows came.
        """
        topics = {stream["name"]: stream.get("topic", stream["name"]) for stream in tree["streams"]}
        for name, rows in fed.items():
            self._fed[topics[name]] += rows
        for table in tree.get("tables", ()):
            if "sources" in table:
                rows = [row for source in table["sources"] for row in self._fed[topics[source]]]
                self._tables[table["name"]] = {getattr(row, table["key"][0]): row for row in rows}
        out: dict[str, Iterable[Row]] = dict(fed)
        passed = dict.fromkeys(topics, over or late)
        waiting = list(tree["steps"])
        while waiting:
            step = waiting.pop(0)
            if any(name not in out and name not in topics for name in step["from"]):
                waiting.append(step)
                continue
            inputs: list[Sequence[Row]] = [sorted(out.get(name, ()), key=lambda row: row.at) for name in step["from"]]
            # Results over all rows come at the end, so that behind them no event time passes before.
            passed[step["name"]] = ended or (all(passed[name] for name in step["from"]) and not over_all_rows(step))
            if late and passed[step["name"]] and (_keeps_for_a_time(step) or "process" in step):
                self.late += sum(map(len, inputs))
                inputs = inputs if "process" in step else [() for _ in inputs]
            out[step["name"]] = self._step(step, inputs, over=passed[step["name"]])
            if "toTable" in step:
                (key,) = next(table["key"] for table in tree["tables"] if table["name"] == step["toTable"])
                self._tables[step["toTable"]] |= {getattr(row, key): row for row in inputs[0]}
            if "to" in step:
                self.written[topics[step["to"]]] += inputs[0]

    def _step(self, step: Tree, inputs: Sequence[Sequence[Row]], *, over: bool) -> list[Row]:  # noqa: PLR0911
        rows, state = inputs[0], self._state[step.get("was", step["name"])]
        if "filter" in step:
            return [row for row in rows if FILTERS[step["filter"]](row)]
        if "select" in step:
            return [SELECTS[tuple(step["select"])](row) for row in rows] if "eventTime" not in step else [*rows]
        if "merge" in step:
            return [row for side in inputs for row in side]
        if "deduplicate" in step:
            return list(_firsts(step["deduplicate"], rows, state, over=over))
        if "process" in step:
            if step["process"]["function"].endswith(":quiet"):
                return list(_quiet(rows, state, step["process"]["by"], over=over))
            tables = [self._tables[name] for name in step["process"].get("tables") or ()]
            return list(_counted(rows, state, step["process"]["by"], tables))
        if "lookup" in step:
            return list(_looked_up(step["lookup"], rows, self._tables[step["lookup"]["table"]]))
        if "aggregate" in step:
            return list(_aggregated(step["aggregate"], rows, state, over=over))
        if "join" in step:
            return list(_joined(step["join"], inputs, state, over=over))
        return list(rows)


def _firsts(settings: Tree, rows: Sequence[Row], state: dict[Any, Any], *, over: bool) -> Iterator[Row]:
    within = settings.get("within")
    for row in rows:
        passed = state.setdefault(row[:3], [])
        if not any(within is None or abs(row.at - at) <= _length(within) for at in passed):
            passed.append(row.at)
            yield row
    if over and within is not None:
        # A longer `within` that comes later counts for what is remembered.
        state.clear()


def _counted(
    rows: Sequence[Row], state: dict[Any, Any], by: Sequence[str], tables: Sequence[Mapping[Any, Row]]
) -> Iterator[Row]:
    for row in rows:
        key = getattr(row, by[0])
        state[key] = state.get(key, 0) + 1
        more = sum(table[key].n or 0 for table in tables if key in table)
        yield Row(key, key, state[key] + more, row.at)


def _quiet(rows: Sequence[Row], state: dict[Any, Any], by: Sequence[str], *, over: bool) -> Iterator[Row]:
    for row in rows:
        key, at = getattr(row, by[0]), floor_millis(Micros(row.at))
        count, last = state.get(key, (0, at))
        if at >= last + GAP:
            yield Row(key, key, count, 0)
            count = 0
        state[key] = count + 1, at
    if over:
        yield from (Row(key, key, count, 0) for key, (count, _) in state.items())
        state.clear()


def _looked_up(settings: Tree, rows: Sequence[Row], table: Mapping[Any, Row]) -> Iterator[Row]:
    for row in rows:
        table_row = table.get(getattr(row, settings["by"][0]))
        if table_row is not None or settings.get("type", "Left") == "Left":
            yield row._replace(n=None if table_row is None else table_row.n)


def over_all_rows(step: Tree) -> bool:
    """Whether its results come at the end alone, so that no event time passes it before."""
    settings = step.get("aggregate", {"window": ""})
    return "window" not in settings and "session" not in settings and settings.get("emit") == "Final"


def _keeps_for_a_time(step: Tree) -> bool:
    """Whether it forgets what event time has passed, so that it has nothing for a row that comes late."""
    lengths = {"window", "session", "within"}
    return "join" in step or any(lengths & step.get(verb, {}).keys() for verb in ("aggregate", "deduplicate"))


def _aggregated(settings: Tree, rows: Sequence[Row], state: dict[Any, Any], *, over: bool) -> Iterator[Row]:
    compute = COMPUTES[settings["compute"][0]]
    for row in rows:
        for window in _windows(settings, row.at):
            state.setdefault((row.k, row.v, window), []).append(row)
    for (k, v, window), held in list(state.items()):
        if settings.get("emit", "Final") == "Update":
            if set(held) & set(rows):
                yield Row(k, v, compute([row.n for row in held]), window or 0)
        elif over:
            del state[k, v, window]
            for session in _sessions(_length(settings["session"]), held) if "session" in settings else [held]:
                latest = max(row.at for row in session)
                end = latest + _length(settings["session"]) if "session" in settings else window
                yield Row(k, v, compute([row.n for row in session]), latest if end is None else end - 1)


def _windows(settings: Tree, at: int) -> Iterator[int | None]:
    """Return the ends of the windows that hold this time; None where there are none, or they follow from the rows."""
    if "window" not in settings:
        yield None
        return
    length = _length(settings["window"])
    slide = _length(settings.get("slide", settings["window"]))
    start = at // slide * slide
    while start > at - length:
        yield start + length
        start -= slide


def _sessions(gap: int, held: Sequence[Row]) -> Iterator[list[Row]]:
    session: list[Row] = []
    for row in sorted(held, key=lambda row: row.at):
        if session and row.at >= session[-1].at + gap:
            yield session
            session = []
        session.append(row)
    yield session


class _Kept:
    """A row that waits for partners."""

    def __init__(self, row: Row) -> None:
        self.row, self.met = row, False


def _joined(settings: Tree, inputs: Sequence[Sequence[Row]], state: dict[Any, Any], *, over: bool) -> Iterator[Row]:
    (on,), kind = settings["by"], settings.get("type", "Inner")
    before = _length(settings.get("within") or settings.get("before") or "0s")
    after = _length(settings.get("within") or settings.get("after") or "0s")
    lefts, rights = (state.setdefault(side, []) for side in ("left", "right"))
    new_lefts, new_rights = ([_Kept(row) for row in rows] for rows in inputs)
    for left, right in chain(product(lefts, new_rights), product(new_lefts, chain(rights, new_rights))):
        near = -before <= right.row.at - left.row.at <= after
        if near and getattr(left.row, on) == getattr(right.row, on) is not None:
            left.met = right.met = True
            yield _pair(on, left.row, right.row)
    lefts += new_lefts
    rights += new_rights
    if over:
        yield from (_pair(on, one.row, None) for one in lefts if kind in {"Left", "Full"} and not one.met)
        yield from (_pair(on, None, one.row) for one in rights if kind in {"Right", "Full"} and not one.met)
        state.clear()


def _pair(on: str, left: Row | None, right: Row | None) -> Row:
    """What `join_select` makes of two rows, or of one without partner."""
    sides = [side for side in (left, right) if side is not None]
    k, v, n = (
        next((value for value in values if value is not None), None)
        for values in zip(*(side[:3] for side in sides), strict=True)
    )
    partner = "-" if right is None or right.n is None else right.n
    row = Row(k, v, n, max(side.at for side in sides))
    if on == "k":
        return row._replace(v=None if v is None else f"{v}/{partner}")
    return row._replace(k=None if k is None else f"{k}/{partner}")
