"""Flink inside the process of a measurement: its JVM, and a look at what it has written.

Started by `fresh.measure` as `python -m bench.nexmark.kafka.flink REQUEST SCRATCH`. Settings are those of
`bench.nexmark.flink_run`. Must not use anything of Holdfast but to read the results.
"""

import json
import subprocess
import sys
from pathlib import Path

from bench.engine.fresh import answer
from bench.nexmark.flink_run import HEAP, OPEN
from bench.nexmark.kafka.flink_sql import statements
from bench.nexmark.kafka.topics import answer as written
from bench.nexmark.market import Market
from bench.nexmark.questions import QUESTIONS


def main() -> None:
    """Run it, and report all events."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    market, query = Market(**request["market"]), request["query"]
    path = ":".join([*request["jars"].split(","), str(scratch)])
    source = Path(__file__).with_name("FlinkKafka.java")
    compiled = ["javac", "-nowarn", "-cp", path, "-d", str(scratch), str(source)]
    subprocess.run(compiled, check=True, timeout=120)  # noqa: S603 - our own source
    given = [str(scratch), f"{request['out']}-warm", request["out"], *statements(query, request["bootstrap"])]
    command = ["java", *HEAP, *OPEN, "-cp", path, "FlinkKafka", *given]
    ran = subprocess.run(command, check=True, timeout=1500, stdout=subprocess.PIPE, text=True)  # noqa: S603
    began, ended = map(float, ran.stdout.split()[-2:])
    digest = QUESTIONS[query].digest(written(request["bootstrap"], request["out"]), market)
    answer(scratch, (began, ended), market.batches * market.events, [ended - began], digest=digest)


if __name__ == "__main__":
    main()
