"""Lives on the command line: many in all processors' time, or the one of HOLDFAST_SEED with all that happens in it."""

import argparse
import gc
import itertools
import math
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator

from tests.simulation.lives import lived, minimised, planned

_AT_ONCE = 8
"""Lives that a worker takes at a time."""


def _rarely_collected() -> None:
    """What was imported is not looked through for garbage again and again."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _seeds(first: int, lives: int | None, minutes: float, room: threading.Semaphore) -> Iterator[int]:
    """Seeds until there are so many, or the time is over; the pool asks for all at once, so each waits for room."""
    until = time.monotonic() + minutes * 60
    for seed in itertools.islice(itertools.count(first), lives):
        room.acquire()
        if time.monotonic() > until:
            return
        yield seed


def _failed(seed: int) -> tuple[int, tuple[str, ...], int]:
    end = lived(planned(seed))
    return seed, end.broken, len(end.killed_by_probe)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--lives", type=int, help="how many (default: 1000, or as many as fit into --minutes)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no life after so long")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if only_seed := os.environ.get("HOLDFAST_SEED"):
        plan = planned(int(only_seed))
        end = lived(plan, traced=True)
        if end.broken:
            plan = minimised(plan)
            end = lived(plan, traced=True)
        print("\n".join(end.trace))  # noqa: T201
        print(*plan.happenings, *end.broken, f"{end.seconds:.0f} s; by the probe: {end.killed_by_probe}", sep="\n")  # noqa: T201
        return bool(end.broken)
    began, count, failures, killed = time.monotonic(), 0, 0, 0
    lives = options.lives or (1000 if math.isinf(options.minutes) else None)
    room = threading.Semaphore(options.workers * _AT_ONCE * 2)
    seeds = _seeds(options.first, lives, options.minutes, room)
    with multiprocessing.Pool(options.workers, _rarely_collected) as pool:
        for seed, broken, by_probe in pool.imap_unordered(_failed, seeds, _AT_ONCE):
            room.release()
            count += 1
            killed += by_probe
            if broken:
                failures += 1
                print(f"HOLDFAST_SEED={seed}: {broken[0]}", flush=True)  # noqa: T201
    minutes = (time.monotonic() - began) / 60
    print(f"{count} lives, {count / minutes:.0f} a minute; {failures} failed; probes killed {killed}")  # noqa: T201
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
