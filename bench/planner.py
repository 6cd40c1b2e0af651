"""How long a plan takes, and how that grows: graphs of 100, 1 000 and 5 000 steps, planned whole.

Every graph has filters, selects, merges, joins, look-ups, aggregates and repartitions in a fixed mix, its own
expressions at each step (so nothing can be remembered from another), and three streams for every ten steps. `python
bench/planner.py`.
"""

import random
import statistics
import time
from typing import Any

from holdfast.planning.plan import plan
from holdfast.spec.app import API_VERSION, KIND, StreamApp
from holdfast.spec.parse import parse_app
from holdfast.spec.steps import Step
from holdfast.spec.streams import Stream

RUNS = 7
SIZES = (100, 1_000, 5_000)


def graph(steps: int, seed: int = 7) -> dict[str, Any]:
    """A spec of this many steps: chains that start at streams, meet, and end in outputs."""
    pick = random.Random(seed)
    streams = [
        {
            "name": f"s{i}",
            "system": "log",
            "partitions": 16,
            "key": ["k"],
            "schema": f"k STRING, v BIGINT, w{i} DOUBLE, ts TIMESTAMP",
            "eventTime": {"column": "ts"},
        }
        for i in range(max(2, steps * 3 // 10))
    ]
    made: list[dict[str, Any]] = []
    heads = [f"s{i}" for i in range(len(streams))]
    while len(made) < steps:
        name, source = f"x{len(made)}", pick.choice(heads[-60:] if pick.random() < 0.5 else heads)
        number = len(made)
        kind = pick.random()
        step: dict[str, Any] = {"name": name, "from": [source]}
        if kind < 0.3:
            step["filter"] = f"k IS NOT NULL AND v > {number}"
        elif kind < 0.6:
            step["select"] = ["k", f"v + {number} AS v", "ts"]
        elif kind < 0.7:
            step |= {
                "from": [source, pick.choice(heads)],
                "join": {"by": ["k"], "within": "10m", "select": ["k", "left.v", "left.ts"]},
            }
        elif kind < 0.8:
            step["repartition"] = {"by": ["k"]}
        elif kind < 0.9:
            step["deduplicate"] = {"by": ["k"], "within": "1h"}
        else:
            step["aggregate"] = {"by": ["k"], "window": "1m", "compute": [f"max(v + {number}) AS v", "max(ts) AS ts"]}
        made.append(step)
        if kind >= 0.9 or pick.random() < 0.3:
            heads = [head for head in heads if head != source] or heads
        heads.append(name)
    return {"systems": [{"name": "log", "log": {}}], "streams": streams, "steps": made}


def app_of(spec: dict[str, Any]) -> StreamApp:
    """The app; steps past what the CRD admits are added behind its back."""
    first = spec["streams"][0]["name"]
    few = {**spec, "steps": [{"name": "x", "from": [first], "filter": "v > 1"}], "streams": spec["streams"][:1]}
    tree = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "bench"}, "spec": few}
    app = parse_app(tree)
    more = {
        "streams": tuple(Stream.model_validate(stream) for stream in spec["streams"]),
        "steps": tuple(Step.model_validate(step) for step in spec["steps"]),
    }
    return app.model_copy(update={"spec": app.spec.model_copy(update=more)})


def main() -> None:
    """Print a row per size."""
    print(f"{'steps':>6} {'streams':>8} {'plan s':>8} {'us/step':>8} {'problems':>9}")
    for steps in SIZES:
        app = app_of(graph(steps))
        seconds = []
        for _ in range(RUNS):
            started = time.perf_counter()
            result = plan(app)
            seconds.append(time.perf_counter() - started)
        median = statistics.median(seconds)
        print(
            f"{steps:>6} {len(app.spec.streams):>8} {median:>8.3f} {median / steps * 1e6:>8.0f} "
            f"{len(result.problems):>9}"
        )


if __name__ == "__main__":
    main()
