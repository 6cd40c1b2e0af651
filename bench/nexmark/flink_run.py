"""The process of a Flink measurement: its JVM, and a look at its answer.

Started by `fresh.measure` as `python -m bench.nexmark.flink_run REQUEST SCRATCH`. RocksDB with incremental checkpoints
every three seconds, mini-batches, object reuse: what Flink's own pages advise for such queries. A query runs twice in
its JVM, and the second time counts. Must not use anything of Holdfast.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import json as lines

from bench.engine.fresh import answer
from bench.nexmark.flink_sql import QUERIES
from bench.nexmark.market import Market
from bench.nexmark.questions import QUESTIONS

HEAP = ("-Xmx2g", "-XX:MaxDirectMemorySize=1g")
OPEN = tuple(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("nio", "lang", "util"))
_TIMES = ("date_time", "auction_date_time", "expires", "starttime", "window_start", "window_end")


def command(request: dict[str, Any], scratch: Path, out: Path) -> list[str]:
    """Compile it, and how it is started."""
    path = ":".join([*request["jars"].split(","), str(scratch)])
    source = Path(__file__).with_name("Flink.java")
    compiled = ["javac", "-nowarn", "-cp", path, "-d", str(scratch), str(source)]
    subprocess.run(compiled, check=True, timeout=120)  # noqa: S603 - our own source
    query, folder = QUERIES[request["query"]], Market(**request["market"]).directory()
    streams = [
        text for name, columns in query.streams.items() for text in (name, str(folder / name), ",".join(columns))
    ]
    arguments = [query.text, str(scratch), str(out) if request["kept"] else "-", str(folder / "side-input"), *streams]
    return ["java", *HEAP, *OPEN, "-cp", path, "Flink", *arguments]


def answered(out: Path) -> pa.Table:
    """The rows of an answer."""
    rows = lines.read_json(out)
    for name in set(_TIMES) & set(rows.schema.names):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, rows[name].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))
    at = rows.schema.get_field_index("price")
    if at >= 0 and rows["price"].type == pa.string():
        rows = rows.set_column(at, "price", rows["price"].cast(pa.decimal128(23, 3)))
    return rows


def main() -> None:
    """Run it, and report all events."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    market, out = Market(**request["market"]), scratch / "out.json"
    ran = subprocess.run(command(request, scratch, out), check=True, timeout=1500, stdout=subprocess.PIPE, text=True)  # noqa: S603
    began, ended = map(float, ran.stdout.split()[-2:])
    digest = QUESTIONS[request["query"]].digest(answered(out), market) if request["kept"] else ""
    answer(scratch, (began, ended), market.batches * market.events, [ended - began], digest=digest)


if __name__ == "__main__":
    main()
