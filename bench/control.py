"""What control messages cost: applying a batch of them, writing what changed, restoring, looking at the clock.

One task that reads partitions fed by 16 producers each; every producer sends one watermark per batch. Medians of seven
batches. `python bench/control.py`.
"""

import statistics
import time
from collections.abc import Callable

from holdfast.control.bookkeeping import Bookkeeping, ControlInputs
from holdfast.control.messages import MessageNumber, WatermarkMessage, decode, encode
from holdfast.control.producers import Delivery, Producers
from holdfast.tasks.partitions import StreamPartition

RUNS = 7
TASKS = tuple(f"partition-{i}" for i in range(16))
SIZES = (4, 100, 1_000)


def deliveries(partitions: list[StreamPartition], batch: int) -> list[Delivery]:
    """One watermark of every producer in every partition."""
    return [
        Delivery(partition, WatermarkMessage(1_000 * batch + number, MessageNumber(batch, number), task, len(TASKS)))
        for partition in partitions
        for number, task in enumerate(TASKS)
    ]


def median_of(call: Callable[[int], object]) -> float:
    """Median seconds of calls with 1, 2, ..."""
    seconds = []
    for run in range(1, RUNS + 1):
        started = time.perf_counter()
        call(run)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def main() -> None:
    """Print a row per number of partitions."""
    print(f"{'partitions':>10} {'messages':>9} {'apply M/s':>10} {'entries ms':>11} {'restore ms':>11} {'tick ms':>8}")
    for size in SIZES:
        partitions = [StreamPartition("mid", i) for i in range(size)]
        inputs = ControlInputs(tuple(partitions), {"mid": Producers.of(TASKS, idle_after=60_000)})
        states = [Bookkeeping.started(inputs, now=0)]
        batches = {run: deliveries(partitions, run) for run in range(1, RUNS + 1)}
        applied = median_of(lambda run: states.append(states[-1].batch(batches[run], now=run)))  # noqa: B023
        before, after = states[-2], states[-1]
        written = median_of(lambda _: after.entries(before))  # noqa: B023
        whole = after.entries(None)
        entries = {key: value for key, value in whole.items() if value is not None}
        restored = median_of(lambda run: Bookkeeping.restored(entries, inputs, now=run))  # noqa: B023
        ticked = median_of(lambda run: after.watermarks.tick(RUNS + run))  # noqa: B023
        messages = size * len(TASKS)
        print(
            f"{size:>10} {messages:>9} {messages / applied / 1e6:>10.2f} {written * 1e3:>11.2f} "
            f"{restored * 1e3:>11.2f} {ticked * 1e3:>8.2f}"
        )
    message = WatermarkMessage(1, MessageNumber(1, 1), "partition-0", 16)
    value, many = encode(message), range(20_000)
    print(f"encode {len(many) / median_of(lambda _: [encode(message) for _ in many]) / 1e6:.2f} M/s, ", end="")
    print(f"decode {len(many) / median_of(lambda _: [decode(value) for _ in many]) / 1e6:.2f} M/s")


if __name__ == "__main__":
    main()
