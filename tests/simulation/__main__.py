"""Lives on the command line: many in all processors' time, or the one of HOLDFAST_SEED with all that happens in it."""

import argparse
import gc
import multiprocessing
import os
import sys
import time

from tests.simulation.lives import lived, minimised, planned


def _rarely_collected() -> None:
    """What was imported is not looked through for garbage again and again."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _failed(seed: int) -> tuple[int, tuple[str, ...], int]:
    end = lived(planned(seed))
    return seed, end.broken, len(end.killed_by_probe)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--lives", type=int, default=1000)
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
    began, failures, killed = time.monotonic(), 0, 0
    seeds = range(options.first, options.first + options.lives)
    with multiprocessing.Pool(options.workers, _rarely_collected) as pool:
        for seed, broken, by_probe in pool.imap_unordered(_failed, seeds, 8):
            killed += by_probe
            if broken:
                failures += 1
                print(f"HOLDFAST_SEED={seed}: {broken[0]}", flush=True)  # noqa: T201
    minutes = (time.monotonic() - began) / 60
    print(f"{options.lives} lives, {options.lives / minutes:.0f} a minute; {failures} failed; probes killed {killed}")  # noqa: T201
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
