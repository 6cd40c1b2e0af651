"""Events of a run as the engine would tell them."""

from dataclasses import replace

from holdfast_cli.local.local_app import RunFiles
from holdfast_cli.run.totals import RunTotals
from holdfast_runtime.progress import AttemptStarted, EndCause, Progress, RunEnded

AT = 1_795_177_628_000
"""2026-11-20T12:27:08Z."""
STARTED = AttemptStarted(
    app="ad-clicks",
    run="1",
    attempt=3,
    tasks=16,
    slots=2,
    data=".holdfast/ad-clicks",
    spark_ui="http://127.0.0.1:4040",
    segments=("python", "sql", "python"),
    stateful=("first", "counts"),
    spark_sql=('step valid, filter: "initcap(user) <> user"',),
)
FIRST = Progress(
    batch=41,
    at=AT,
    attempt=3,
    tasks=16,
    rows_in=12_000,
    rows_out=900,
    bytes_out=123_456,
    lag=4_321,
    lags={"clicks": (21, 0, 0, 4_000), "views": (300,)},
    unread_from={"clicks": {0: AT - 12_000, 3: AT - 40_000}},
    seconds=0.182,
    phases={"plan": 12.4, "spark": 34.0, "open": 0.2, "fetch": 20.1, "steps": 88.0, "write": 9.9, "commit": 17.0},
    watermark=AT - 12_000,
    watermarks={"clicks": AT - 40_000, "views": AT - 12_000},
    held_back="clicks/3: the watermark stands at 2026-11-20T12:26:56.000Z, for 12 s: waiting for its source or relay",
    state_bytes=12_345_678,
    restored=("partition-3: no local store",),
    read={"clicks": 8_000, "views": 4_000},
    streams={"attributed": 900},
)
ENDED = RunEnded(EndCause.IDLE, batches=10, rows_in=120_000, rows_out=9_000, seconds=12.0)
FILES = RunFiles(
    "app.yaml",
    ".holdfast/ad-clicks",
    data_given=False,
    prints=".holdfast/ad-clicks/apps/ad-clicks/spark.log",
    logs=frozenset({"attributed"}),
)


def batches(number: int) -> list[Progress]:
    """The first restores a task, the third has late, undecoded, null and misplaced ones, the others are plain."""
    plain = replace(FIRST, restored=())
    following = [replace(plain, batch=FIRST.batch + i, at=AT + i * 1000) for i in range(1, number)]
    if number > 2:
        following[1] = replace(
            following[1], late={"first": 7}, undecoded=1, tombstones=3, failed={"paid": 4}, misplaced={"clicks": 2}
        )
    return [FIRST, *following][:number]


def seen_after(number: int, *, draining: bool = False) -> RunTotals:
    """One batch a second, the run started at second 0 and the batches ended at 1, 2, ..."""
    totals = RunTotals()
    totals.note(STARTED, 0.0)
    for i, progress in enumerate(batches(number), start=1):
        totals.note(progress, float(i))
    totals.draining = draining
    return totals
