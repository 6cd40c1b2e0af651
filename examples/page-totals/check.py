"""Whether page-totals did its work exactly once: what it wrote, against what the generator makes, row by row.

python examples/page-totals/check.py DATA
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pages
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.control.messages import UserRecord, decode
from holdfast.spec.app import StreamApp
from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.plan.app_file import load_app
from holdfast_runtime.checkpoint.offset_log import read_offset_log
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.records import OffsetRange


def main(data: DataDir) -> int:
    """Say what was found; 1 if a row is lost or doubled."""
    app = load_app(str(Path(__file__).with_name("app.yaml"))).app
    assert app is not None
    after, log = last_offsets(data, app), EmbeddedLog(data.log)
    expected = views_of_people(
        {partition.partition: end for partition, end in after.items() if partition.stream == "views"}
    )
    moved = rows_among(records(log, "page-totals-by-page")["value"])
    views = pa.array([json.loads(row)["view"] for row in moved], pa.string())
    once = sorted_(views).equals(sorted_(expected))
    print(f"{len(expected):,} views of people were read, {len(views):,} rows are with their pages: {said(once)}")

    read = {partition.partition: end for partition, end in after.items() if partition.stream == "by-page"}
    rows = len(rows_among(records(log, "page-totals-by-page", read)["value"]))
    totals: dict[str, dict[str, int]] = {}
    for value in records(log, "totals")["value"].to_pylist():
        total = json.loads(value)
        totals[total["page"]] = total
    same = sum(total["views"] for total in totals.values()) == rows
    print(f"{rows:,} rows were counted, the totals say {sum(t['views'] for t in totals.values()):,}: {said(same)}\n")
    print(f"{'PAGE':<14}{'VIEWS':>12}{'SLOW':>12}")
    for page, total in sorted(totals.items(), key=lambda page_total: -page_total[1]["views"]):
        print(f"{page:<14}{total['views']:>12,}{total['slow']:>12,}")
    return 0 if once and same else 1


def last_offsets(data: DataDir, app: StreamApp) -> Mapping[StreamPartition, int]:
    """Up to where each partition was read, by the last batch that is done."""
    logged = read_offset_log(data.app(app.name).run(app.spec.run_id).query)
    return {} if logged is None else logged.done.positions


def views_of_people(ends: Mapping[int, int]) -> pa.Array:
    """The views the generator made up to there, without those the app filters out."""
    kept = []
    for partition, end in ends.items():
        rows = pages.views(partition, 0, end)
        kept.append(rows.filter(pc.invert(pc.starts_with(rows["page"], "/health")))["view"])
    return pa.concat_arrays(kept)


def records(log: EmbeddedLog, topic: str, ends: Mapping[int, int] | None = None) -> pa.Table:
    """The records of a stream, or those below these ends."""
    ranges = [
        OffsetRange(partition, bounds.oldest, bounds.end if ends is None else ends[partition.partition])
        for partition, bounds in log.bounds(topic).items()
    ]
    return pa.Table.from_batches([log.fetch(one) for one in ranges])


def rows_among(values: pa.ChunkedArray) -> list[bytes]:
    """The rows among records, without watermarks."""
    decoded = map(decode, values.to_pylist())
    return [one.payload for one in decoded if isinstance(one, UserRecord)]


def sorted_(column: pa.Array) -> pa.Array:
    """In order, so that lost and doubled values show."""
    return column.take(pc.array_sort_indices(column))


def said(right: bool) -> str:
    """For people."""
    return "exactly once" if right else "NOT EXACTLY ONCE"


if __name__ == "__main__":
    sys.exit(main(DataDir(Path(sys.argv[1]))))
