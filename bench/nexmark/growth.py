"""How query 17 of Nexmark grows with its executors, on the cluster of `make cluster`: `python -m bench.nexmark.growth`.

The machine has few cores, so executors get a quarter of one each, as a limit of their containers: then one, two and
four of them are as many times the processor, and what does not grow with it is seen. Bids are made by a generator in
the executors themselves, which is part of their work; each of four partitions is an auction house of its own. Rows that
come out are dropped. Batches are of one size, as far behind as they can be, and what counts is how many were committed
in a while (`MEASURED`), some time (`WARM`) after the first.
"""

import argparse
import statistics
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.cluster.place import Place, place
from bench.nexmark import events
from bench.nexmark.report import tree_of
from holdfast.protocol.names import REPORT_LABEL
from holdfast.protocol.report import DriverReport, report_in
from tests.cluster.cluster import Tree
from tests.kind.apps import App, small_runtime
from tests.kind.installed import Team
from tests.waiting import wait_until

PARTS, PER_PARTITION = 4, 50_000
COUNTS = (1, 2, 4)
CORES = "250m"
WARM = MEASURED = 45_000
"""Milliseconds after the first batch that do not count, and that do."""
_ROWS_PER_SECOND = 1_000_000_000
_PATIENCE = 420.0
_HOUSE = textwrap.dedent(f"""
    import pyarrow as pa
    import pyarrow.compute as pc

    from nexmark_events import Nexmark


    def bids(partition, offset, count):
        rows = Nexmark(seed=partition + 1, rate=50_000).bid(offset, count)
        own = pc.add(pc.multiply(rows["auction"], {PARTS}), partition)
        return pa.RecordBatch.from_arrays([own, *rows.columns[1:]], schema=rows.schema)


    def nothing(rows):
        return rows.slice(0, 0)
""")


def app_tree(name: str, bootstrap: str, team: Team, executors: int) -> Tree:
    """The app of query 17 on a generator, with so many executors."""
    tree = tree_of("q17")
    spec = tree["spec"]
    (bid,) = (one for one in spec["streams"] if one["name"] == "bid")
    (last,) = (one for one in spec["steps"] if "to" in one)
    runtime: dict[str, Any] = small_runtime()
    resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": CORES}}
    runtime |= {
        "executors": {**runtime["executors"], "count": executors, "resources": resources},
        "trigger": {"interval": "0s", "maxRecordsPerPartition": PER_PARTITION},
        "code": {"house": _HOUSE, "nexmark_events": Path(events.__file__).read_text(encoding="utf-8")},
    }
    spec |= {
        "systems": [
            {"name": "house", "generator": {"function": "house:bids", "rowsPerSecond": _ROWS_PER_SECOND}},
            {"name": "kafka", "kafka": {"bootstrapServers": bootstrap}},
        ],
        "streams": [
            {key: value for key, value in bid.items() if key != "bounded"} | {"system": "house", "partitions": PARTS},
            {"name": "results", "topic": f"{name}-results", "system": "kafka", "partitions": PARTS, "key": ["auction"]},
        ],
        "steps": [
            *(one for one in spec["steps"] if one is not last),
            {"name": "dropped", "from": last["from"], "apply": {"function": "house:nothing"}},
            {**last, "from": ["dropped"]},
        ],
        "runtime": runtime,
        "state": {"location": "Claim", "storageClass": team.storage_class, "size": "1Gi"},
    }
    return {**tree, "metadata": {"name": name}}


def rows_per_second(site: Place, executors: int) -> float:
    """Of one run."""
    name = f"nexmark-growth-{executors}"
    with site.installed.team() as team:
        app = App(site.cluster, team.namespace, app_tree(name, site.broker.bootstrap, team, executors))
        app.apply()
        first = _after(app, 0)
        began = _after(app, (first.progressed or 0) + WARM)
        if len(app.executors()) != executors:
            message = f"{len(app.executors())} executors run instead of {executors}"
            raise ValueError(message)
        ended = _after(app, (began.progressed or 0) + MEASURED)
    seconds = ((ended.progressed or 0) - (began.progressed or 0)) / 1e3
    return (ended.batch - began.batch) * PARTS * PER_PARTITION / seconds


def _after(app: App, moment: int) -> DriverReport:
    """The first report of a batch that was committed after this moment."""
    later_reports: list[DriverReport] = []

    def told() -> bool:
        maps = app.cluster.tree("configmaps", f"--namespace={app.namespace}", f"--selector={REPORT_LABEL}={app.name}")
        reports = [one for tree in maps["items"] if (one := report_in(tree)) is not None]
        later_reports.extend(one for one in reports if (one.progressed or 0) > moment)
        return bool(later_reports)

    wait_until(told, _PATIENCE, f"{app.name} commits a batch after {moment}")
    return later_reports[-1]


def table(rates_by_count: Mapping[int, list[float]]) -> str:
    """Medians, and how many times the first."""
    lines = [f"{'executors':>10}{'rows/s':>12}{'times':>8}  runs"]
    base = statistics.median(rates_by_count[COUNTS[0]])
    for executors, rates in rates_by_count.items():
        median = statistics.median(rates)
        runs = " ".join(f"{one:,.0f}" for one in rates)
        lines.append(f"{executors:>10}{median:>12,.0f}{median / base:>8.2f}  {runs}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.nexmark.growth", description="Query 17 with more executors.")
    parser.add_argument("--runs", type=int, default=1, help="of each number of executors (default: 1)")
    runs = parser.parse_args().runs
    with place() as site:
        rates_by_count: dict[int, list[float]] = {executors: [] for executors in COUNTS}
        for run in range(runs):
            for executors in COUNTS if run % 2 == 0 else reversed(COUNTS):
                rates_by_count[executors].append(rows_per_second(site, executors))
                print(f"{executors} executors of {CORES}: {rates_by_count[executors][-1]:,.0f} rows/s", flush=True)
    print(table(rates_by_count))


if __name__ == "__main__":
    main()
