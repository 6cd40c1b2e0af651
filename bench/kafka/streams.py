"""The process of a Kafka Streams measurement: its JVM, and a look at what it has written.

Started by `fresh.measure` as `python -m bench.kafka.streams REQUEST SCRATCH`. RocksDB without the cache before it, two
threads, batches of half a megabyte. Throughput with transactions commits each second instead of each 100 ms, about as
long as Holdfast's batches are; for latency producers wait 5 ms instead of 100. Windows are told when they close. All
else as it comes. Must not use anything of Holdfast but to read the results.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.engine.fresh import answer
from bench.kafka.given import results
from bench.kafka.jars import HERE


def command(request: dict[str, Any], scratch: Path) -> list[str]:
    """Compile it, and how it is started."""
    path = ":".join([*request["jars"].split(","), str(scratch)])
    compiled = ["javac", "-cp", path, "-d", str(scratch), str(HERE / "KafkaStreams.java")]
    subprocess.run(compiled, check=True, timeout=120)  # noqa: S603
    options = {
        "bootstrap": request["bootstrap"],
        "work": request["work"],
        "values": request["values"],
        "guarantee": request["guarantee"],
        "in": request["rows_in"],
        "names": request["names"],
        "out": request["out"],
        "rows": str(request["rows"]),
        "warm": str(request["warm"] * request["per_batch"]),
        "lateness": str(request.get("lateness", 0)),
        "within": str(request.get("within", 0)),
        "directory": str(scratch / "state"),
        "commit": request["commit"],
        "linger": request["linger"],
    }
    pairs = [text for pair in options.items() for text in pair]
    return ["java", "-Xmx2g", "-cp", path, "KafkaStreams", *pairs]


def main() -> None:
    """Run it, and report all records but the first ones."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    ran = subprocess.run(command(request, scratch), check=True, timeout=900, stdout=subprocess.PIPE, text=True)  # noqa: S603
    began, ended = map(float, ran.stdout.split())
    counted = request["rows"] - request["warm"] * request["per_batch"]
    answer(scratch, (began, ended), counted, [ended - began], digest=results(request))


if __name__ == "__main__":
    main()
