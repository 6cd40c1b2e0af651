"""A `process` step with tables of its own, for its tests."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from holdfast.spec.steps import Process
from holdfast.times import MICROS_PER_MILLI
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.process import ProcessSetting, ProcessStep
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.steps.memory import MemoryTables, listed, timed

GIVEN = pa.schema([("sku", pa.string()), ("shop", pa.int32()), ("cents", pa.int64())])
OUT = pa.schema([("sku", pa.string()), ("n", pa.int64())])
NOON = 1_700_000_000_000


class Running:
    """A step with tables of its own, run batch by batch."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        by: tuple[str, ...] = ("sku",),
        ttl: str | None = None,
        out: pa.Schema = OUT,
        schema: pa.Schema = GIVEN,
        event_time: str | None = None,
    ) -> None:
        self.schema, self.tables = schema, MemoryTables()
        verb = Process(function="shop:count", by=by, ttl=ttl)
        self.step = ProcessStep("counted", verb, function, schema, out, ProcessSetting(event_time))
        self.outcome = StepOutcome(TimedRows.nothing(out))
        """Of the last batch."""

    def __call__(
        self,
        rows: list[dict[str, Any]] | None = None,
        times: Sequence[float | None] | None = None,
        *,
        now: int = NOON,
        watermark: int | None = None,
        ended: bool = False,
        before: int | None = None,
    ) -> list[tuple[dict[str, Any], float | None]]:
        """Run a batch; all times are milliseconds, those of rows may have microseconds behind the point."""
        clock = StepClock(now, watermark, ended, before)
        micros = None if times is None else [None if one is None else round(one * MICROS_PER_MILLI) for one in times]
        self.outcome = self.step.run(timed(self.schema, rows or [], micros), self.tables, clock)
        outputs = listed(self.outcome.rows)
        return [(row, None if time is None else time / MICROS_PER_MILLI) for row, time in outputs]

    @property
    def keys(self) -> list[bytes]:
        return sorted(self.tables.table("counted").rows)


def count(sku: Any, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    state["n"] = state.get("n", 0) + len(rows)
    yield {"sku": sku, "n": state["n"]}


def rows_of(*skus: str | None) -> list[dict[str, Any]]:
    return [{"sku": sku, "shop": 1, "cents": place} for place, sku in enumerate(skus)]


def values(outputs: Sequence[tuple[dict[str, Any], float | None]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row, _ in outputs]
