"""Views of a small site: row n of a partition is always the same one."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.functions import Row, State

PAGES = pa.array(["/", "/docs", "/docs/start", "/blog", "/healthz", "/about", "/shop", "/shop/cart"])
START = 1_767_225_600_000_000  # 2026-01-01, in microseconds


def views(partition: int, offset: int, count: int) -> pa.RecordBatch:
    """Rows `offset` to `offset + count` of a partition."""
    numbers = np.arange(offset, offset + count, dtype=np.int64)
    texts = pa.array(numbers).cast(pa.string())
    visitors = pa.array(numbers * 7919 % 5000).cast(pa.string())
    mixed = numbers * 2654435761 + partition * 40503
    return pa.RecordBatch.from_pydict(
        {
            "view": pc.binary_join_element_wise(f"{partition}", texts, "-"),
            "visitor": pc.binary_join_element_wise(f"visitor-{partition}", visitors, "-"),
            "page": PAGES.take(pa.array((mixed >> 7) % len(PAGES))),
            "millis": pa.array((40 + (mixed >> 3) % 400).astype(np.int32)),
            "ts": pa.array(START + numbers * 200, pa.timestamp("us", tz="UTC")),
        }
    )


def grade(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Whether a view was slow, for a whole batch at once."""
    return batch.select(["view", "page"]).append_column("slow", pc.greater(batch["millis"], 300)).append_column(
        "ts", batch["ts"]
    )


def count(page: str, rows: list[Row], state: State) -> Iterator[Row]:
    """The totals of a page, once per batch."""
    state["views"] = state.get("views", 0) + len(rows)
    state["slow"] = state.get("slow", 0) + sum(row["slow"] for row in rows)
    state["last"] = max(state.get("last", rows[0]["ts"]), *(row["ts"] for row in rows))
    yield {"page": page, **state}
