"""The table of the control plane's troubles: what happened, what must hold, and how long it took.

    python -m bench.troubles                        all of them, about twenty minutes
    python -m bench.troubles etcd leader            some of them

Fails if anything that must hold does not. Must not cause troubles itself.
"""

import argparse
import os
import platform
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from bench.troubles import edit_storm, etcd_killed, leader_cut, namespace_deleted, rights_taken
from bench.troubles.promises import Promise

Trouble = Callable[[Path], Iterator[Promise]]
TROUBLES: Mapping[str, Trouble] = {
    "etcd": etcd_killed.trouble,
    "storm": edit_storm.trouble,
    "rights": rights_taken.trouble,
    "namespace": namespace_deleted.trouble,
    "leader": leader_cut.trouble,
}


def main() -> int:
    """Cause the troubles, print the table; return the exit code."""
    parser = argparse.ArgumentParser(
        "python -m bench.troubles", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("troubles", nargs="*", metavar="TROUBLE", help=f"of {', '.join(TROUBLES)} (default: all)")
    names = parser.parse_args().troubles or list(TROUBLES)
    if unknown := [name for name in names if name not in TROUBLES]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(TROUBLES)}")
    print(f"{_machine()}\n\n| what happened | what must hold | held | figure |\n|---|---|---|---|")
    lost = [name for name in names if not _survived(name)]
    return 1 if lost else 0


def _survived(name: str) -> bool:
    """Print the rows of a trouble; return whether all that must hold did."""
    held, event = True, ""
    for row in _rows(TROUBLES[name]):
        held = held and row.held
        mark = "" if not row.text else "yes" if row.held else "**NO**"
        shown, event = "" if row.event == event else row.event, row.event
        print(f"| {shown} | {row.text} | {mark} | {row.figure} |", flush=True)
    return held


def _rows(trouble: Trouble) -> Iterator[Promise]:
    with tempfile.TemporaryDirectory(prefix="holdfast-trouble-") as directory:
        try:
            yield from trouble(Path(directory))
        except Exception as error:  # noqa: BLE001 - the other troubles are still of interest
            traceback.print_exc()
            yield Promise("the trouble could not be played to its end", "it can", held=False, figure=repr(error)[:200])


def _machine() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    where = f"{os.cpu_count()} cores, {platform.platform()}, load {load}"
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {where}"
