"""Random faults for HOLDFAST_SOAK seconds, drawn by HOLDFAST_SEED."""

import os
import random
import time
from collections import Counter

from tests.cluster.cluster import Cluster
from tests.kafka.counted import Counted
from tests.kind.apps import App
from tests.kind.faults import Faults
from tests.kind.fed import Fed
from tests.kind.installed import Installed
from tests.kind.kafka import KindBroker

_SECONDS = float(os.environ.get("HOLDFAST_SOAK", "150"))
_FLOWS = 150.0
_GROWTH = (4, 8)


def test_random_faults_lose_double_and_disorder_nothing(
    cluster: Cluster, installed: Installed, broker: KindBroker, running: tuple[App, Fed], counted: Counted
) -> None:
    app, fed = running
    seed = int(os.environ.get("HOLDFAST_SEED") or random.SystemRandom().randrange(1 << 31))
    drawn, story = random.Random(seed), Counter[str]()  # noqa: S311
    print(f"HOLDFAST_SEED={seed}", flush=True)  # noqa: T201 - so that it can be repeated
    faults = Faults(cluster, installed, broker, app)
    kinds = faults.kinds()
    # Of so many failures in half an hour the last would wait five minutes.
    app.apply(restart={"backoff": {"max": "10s"}})
    until, growth = time.monotonic() + _SECONDS, list(_GROWTH)
    turns: list[str] = []
    while time.monotonic() < until:
        if not turns:  # each kind once before any comes again
            turns = [*kinds, *(["grown"] if growth else [])]
            drawn.shuffle(turns)
        name = turns.pop()
        began = time.monotonic()
        if name == "grown":
            counted.broker.grow_topic(counted.rows, growth.pop(0))
        else:
            kinds[name](drawn)
        took = fed.flows(_FLOWS)
        story[name] += 1
        print(f"{name}: {time.monotonic() - began:.0f} s, {took:.1f} s to rows", flush=True)  # noqa: T201
    count = fed.settles()
    print(f"{count} rows, {sum(story.values())} faults: {dict(story)}, {app.attempt()} attempts")  # noqa: T201
