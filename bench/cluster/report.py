"""The tables, and the same figures as a file, whatever of it is run and when.

    python bench/cluster                            all of it, an hour or two
    python bench/cluster --runs 1 apply growth      some of it

Must not measure.
"""

import argparse
import json
import shlex
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from confluent_kafka import KafkaException

from bench.cluster.measures import WHATS, Asked, Measure, Taken, What
from bench.cluster.place import Make, Place, life, place
from tests.chart.helms import HelmError
from tests.cluster.steps import ClusterError
from tests.kind.installed import LOST_AFTER

FILE = Path(__file__).parents[2] / ".holdfast" / "bench-cluster.json"
_MOST_MB = 400
"""The disks of tests are 1 GiB, and one may get two of three tasks."""
_LOOKS = 5
_FAILURES = (AssertionError, ClusterError, HelmError, KafkaException, OSError, SubprocessError, ValueError)
Figures = dict[str, dict[str, Any]]
"""What -> way -> seconds, notes and the command."""


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whats", nargs="*", metavar="WHAT", help=f"of {', '.join(WHATS)} (default: all)")
    parser.add_argument("--runs", type=int, default=3, help="of each way, in turns (default: 3)")
    parser.add_argument("--state-mb", type=int, default=200, help="state of driver and driver-restored (default: 200)")
    parser.add_argument("--restarts", type=int, default=20, help="of locality (default: 20)")
    parser.add_argument("--seed", type=int, default=8, help="of locality (default: 8)")
    parser.add_argument("--only", choices=("Holdfast", "stock"), help="one of both")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.whats if name not in WHATS]:
        parser.error(f"there is no {unknown}; there are {list(WHATS)}")
    if not 0 <= arguments.state_mb <= _MOST_MB:
        parser.error(f"--state-mb {arguments.state_mb}: disks hold up to {_MOST_MB}")
    settings = Asked(arguments.state_mb, arguments.restarts, arguments.seed)
    failed = 0
    with place() as site:
        for name in arguments.whats or WHATS:
            what = _chosen(WHATS[name], arguments.only)
            measurements, lost = _paired(site, name, what, settings, arguments.runs)
            failed += lost
            if measurements:
                print(table(name, what.title, measurements, settings), flush=True)
                _write(name, measurements)
    if failed:
        sys.exit(f"{failed} runs have failed and are in no figure")


def _chosen(what: What, only: str | None) -> What:
    ways = {way: pair for way, pair in what.ways.items() if only is None or way.startswith(only)}
    return What(what.title, ways, what.once)


def _paired(site: Place, name: str, what: What, settings: Asked, runs: int) -> tuple[dict[str, list[Taken]], int]:
    """Every way once per run, forwards and backwards in turn, so that a slow minute hits all alike.

    What was found of each way, and how many runs have failed.
    """
    measurements: dict[str, list[Taken]] = {way: [] for way in what.ways}
    failed = 0
    for run in range(1 if what.once else runs):
        for way in what.ways if run % 2 == 0 else reversed(list(what.ways)):
            measured = _run(site, f"{name}, {way}, run {run + 1}", what.ways[way], settings)
            for measurement in measured:
                print(f"  {name}, {way}: {measurement.seconds:.1f} s {dict(measurement.notes) or ''}", flush=True)
            measurements[way] += measured
            failed += not measured
    return {way: measured for way, measured in measurements.items() if measured}, failed


def _run(site: Place, name: str, way: tuple[Make, Measure], settings: Asked) -> Sequence[Taken]:
    """One life; nothing where it has failed: the others go on, as each has all of its own."""
    make, measure = way
    try:
        with life(site, make, name.replace(",", "").replace(" ", "-")) as running:
            return measure(running, settings)
    except _FAILURES as error:
        print(f"  {name} has failed: {error}", flush=True)
        return ()


def table(name: str, title: str, measurements: Mapping[str, Sequence[Taken]], settings: Asked) -> str:
    """Medians, all runs, and what else was seen."""
    sized = f", {settings.state_mb} MB of state" if name.startswith("driver") else ""
    known = {
        "node": f"; pods leave a lost node after {LOST_AFTER} s, and it is noticed after 16 s",
        "growth": f"; topics are looked at every {_LOOKS} s",
        "locality": f"; seed {settings.seed}",
    }.get(name, "")
    lines = ["", f"{name}: {title}{sized}{known}", f"{'way':<28}{'median s':>9}  runs"]
    for way, measured in measurements.items():
        seconds = [one.seconds for one in measured]
        runs = " ".join(f"{one:.1f}" for one in seconds)
        lines.append(f"{way:<28}{statistics.median(seconds):>9.1f}  {runs}")
        lines += [f"{'':<28}{'':>9}  {line}" for line in _noted(measured)]
    return "\n".join(lines)


def _noted(measured: Sequence[Taken]) -> list[str]:
    """Of locality the sums, of all others the runs."""
    notes = [one.notes for one in measured]
    if notes and "back" in notes[0]:
        sums = {key: sum(int(one[key]) for one in notes) for key in ("tasks", "back", "restored")}
        lines = [f"{sums['back']} of {sums['tasks']} tasks on the node they were on, {sums['restored']} restored"]
        for kind, times in sorted(Counter(one["killed"] for one in notes).items()):
            seconds = [one.seconds for one in measured if one.notes["killed"] == kind]
            lines.append(f"killed {kind}: {times} times, median {statistics.median(seconds):.1f} s")
        return lines
    return [f"{key}: {' '.join(one[key] for one in notes)}" for key in (notes[0] if notes else ())]


def merged(before: Figures, name: str, measurements: Mapping[str, Sequence[Taken]], command: str) -> Figures:
    """The file with these in place of those it had; ways that were not run stay."""
    new = {
        way: {
            "command": command,
            "median": statistics.median(one.seconds for one in measured),
            "seconds": [round(one.seconds, 2) for one in measured],
            "notes": [dict(one.notes) for one in measured],
        }
        for way, measured in measurements.items()
    }
    return {**before, name: {**before.get(name, {}), **new}}


def _write(name: str, measurements: Mapping[str, Sequence[Taken]]) -> None:
    before: Figures = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(merged(before, name, measurements, shlex.join(["python", *sys.argv])), indent=1) + "\n")


if __name__ == "__main__":
    main()
