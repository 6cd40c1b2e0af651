"""An operator on a full node whose neighbour has sixty processes that never rest.

    python -m bench.cluster.busy_node --minutes 60 --load 60 --first-seed 41000000

The neighbour is a pod that requests all the CPU that the operator's node has left, so the scheduler finds the node full
and each pod there has the share that it requested. Its processes are simulated lives of the operator: they are started
on this machine, in the pod's cgroup, and what fails in them is printed. Meanwhile apps are edited, made and deleted as
on any day, and the rows of one are compared. Fails if the operator was restarted or a life has failed. Must not lower
what the chart requests.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from bench.cluster.neighbour import neighbour
from bench.cluster.place import Place, place
from tests.kafka.counted import Counted
from tests.kind.apps import App, counted_app
from tests.kind.fed import Fed
from tests.kind.installed import RELEASE, SYSTEM, Team
from tests.waiting import wait_until

_LIMIT = 600.0
_MISSED = "could not be renewed"
_COLUMNS = ("minute", "load", "edit to Ready, s", "then a new row, s", "new app to Ready, s", "deleted, s", "restarts")


def main() -> int:
    """Make the node busy, print a row for each turn, and what was left standing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--load", type=int, default=60, help="processes of the neighbour (default: 60)")
    parser.add_argument("--first-seed", type=int, default=41_000_000, help="of the simulated lives")
    options = parser.parse_args()
    with place() as site:
        site.installed.upgrade(**{"nodes.lostAfter": 60})
        node = site.cluster.tree("pod", site.installed.operator(), f"--namespace={SYSTEM}")["spec"]["nodeName"]
        with site.installed.team() as team:
            image, load = site.installed.images.runtime, (options.load, options.minutes, options.first_seed)
            with neighbour(site.cluster, node, image, *load) as lives:
                restarted = _day(site, team, time.monotonic() + options.minutes * 60)
                return int(lives.failed() or restarted)


def _day(site: Place, team: Team, until: float) -> bool:
    """Turn after turn until the time is over; return whether anything was restarted."""
    wait_until(lambda: _Operator.now(site).leads, 60, "the operator that was installed leads")
    began, before = time.monotonic(), _Operator.now(site)
    print(f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|", flush=True)
    counted = Counted.new(site.broker)
    app = counted_app(site.cluster, team, counted)
    with Fed(counted) as fed:
        _timed(app.apply, app)
        fed.flows(_LIMIT)
        turn = 0
        while time.monotonic() < until:
            turn += 1
            edit = _edited(app, turn)
            row = fed.flows(_LIMIT)
            visit, leave = _visit(site, team)
            now = _Operator.now(site)
            figures = f"{edit:.0f} | {row:.1f} | {visit:.0f} | {leave:.0f} | {now.restarts}"
            print(f"| {(time.monotonic() - began) / 60:.0f} | {os.getloadavg()[0]:.0f} | {figures} |", flush=True)
        rows = fed.settles(_LIMIT)
    after = _Operator.now(site)
    print(f"\n{rows} rows, none lost, doubled or out of order; {app.attempt()} attempts in {turn} turns")
    print(f"before: {before}\nafter:  {after}; renewals missed: {after.missed(site)}", flush=True)
    return after != before


def _edited(app: App, turn: int) -> float:
    runtime = {**app.tree["spec"]["runtime"], "trigger": {"interval": f"{500 + turn}ms"}}
    return _timed(lambda: app.apply(runtime=runtime), app)


def _visit(site: Place, team: Team) -> tuple[float, float]:
    """Another app comes, and goes as soon as it is well; return how long both took."""
    app = counted_app(site.cluster, team, Counted.new(site.broker), state={"location": "Pod"})
    well, began = _timed(app.apply, app), time.monotonic()
    app.delete()
    return well, time.monotonic() - began


def _timed(change: Callable[[], None], app: App) -> float:
    began = time.monotonic()
    change()
    app.until("Ready", "True", seconds=_LIMIT)
    return time.monotonic() - began


@dataclass(frozen=True)
class _Operator:
    """What must be the same after the day as before it."""

    pod: str
    restarts: int
    transitions: int
    """Of its Lease."""
    leads: bool

    @classmethod
    def now(cls, site: Place) -> Self:
        pod = site.cluster.tree("pod", site.installed.operator(), f"--namespace={SYSTEM}")
        lease = site.cluster.tree("lease", RELEASE, f"--namespace={SYSTEM}")["spec"]
        (container,) = pod["status"]["containerStatuses"]
        name, holder = pod["metadata"]["name"], lease.get("holderIdentity") or ""
        return cls(name, container["restartCount"], lease.get("leaseTransitions", 0), holder.startswith(name))

    def missed(self, site: Place) -> int:
        """How often its log says that its Lease could not be renewed."""
        return site.cluster.kubectl("logs", self.pod, f"--namespace={SYSTEM}").count(_MISSED)


if __name__ == "__main__":
    sys.exit(main())
