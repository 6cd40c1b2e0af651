"""Scores for card payments."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.functions import Row, State


def features(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The amount on a scale where ten times as much is one more."""
    size = pc.log10(pc.cast(pc.max_element_wise(batch["cents"], 1), pa.float64()))
    kept = batch.select(["payment", "card", "country"])
    return kept.append_column("size", size).append_column("ts", batch["ts"])


def score(card: str, rows: list[Row], state: State) -> Iterator[Row]:
    """High where a card is far from its last country, or pays far more than it used to."""
    for row in rows:
        usual = state.get("size", row["size"])
        abroad = 0.5 if state.get("country", row["country"]) != row["country"] else 0.0
        more = max(0.0, row["size"] - usual) / 2
        yield {"payment": row["payment"], "card": card, "score": min(1.0, abroad + more)}
        state["size"] = 0.9 * usual + 0.1 * row["size"]
        state["country"] = row["country"]
