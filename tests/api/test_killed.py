"""The operator is killed between any two things it does, over the whole life of an app, on a real API server.

CI draws HOLDFAST_LIVES lives (default 2) from HOLDFAST_SEED; `make soak` more.
"""

import logging
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.admin import APPS, PODS
from tests.api.conftest import Site
from tests.waiting import wait_until

LIVES = int(os.environ.get("HOLDFAST_LIVES", "2"))
SEED = int(os.environ.get("HOLDFAST_SEED", "1"))
KILLS = 3
"""In each stage of a life, before an operator may live."""
DEATHS = [0]
"""How many operators have died."""
RESTART: Any = {"backoff": {"initial": "1s", "max": "2s"}}
CHANGED: Any = {"restart": RESTART, "runtime": {"checkpoint": {"location": "s3a://bucket/ads"}, "image": "other"}}


def lives_through(site: Site, pick: random.Random, reached: Callable[[], bool], what: str) -> None:
    """Some operators that die, then one that does not."""
    for _ in range(KILLS):
        die = f"any:{pick.randint(1, 8)}" if pick.random() < 0.7 else f"after:{pick.uniform(0.3, 2)}"
        with site.operator(die) as process:
            wait_until(lambda: process.poll() is not None or reached(), 60, f"{what}, or the operator's death")
            DEATHS[0] += process.poll() is not None
    with site.operator():
        wait_until(reached, 60, what)


def runs(site: Site, attempt: int, restarts: int) -> Callable[[], bool]:
    def reached() -> bool:
        status = site.app().get("status") or {}
        return (
            site.condition("Ready") == ("True", "Running")
            and status.get("attempt") == attempt
            and status.get("restarts") == restarts
            and len(site.alive()) == 1
        )

    return reached


@pytest.mark.parametrize("life", range(LIVES))
def test_an_apps_life_is_the_same_wherever_the_operator_dies(site: Site, life: int) -> None:
    pick = random.Random(SEED * 1000 + life)  # noqa: S311 - to be repeated
    site.apply(restart=RESTART)
    lives_through(site, pick, runs(site, 1, 0), "the first attempt runs")
    site.apply(**CHANGED)
    lives_through(site, pick, runs(site, 2, 0), "the changed app runs")
    site.topics(clicks=8, out=4)
    lives_through(site, pick, runs(site, 3, 0), "the next attempt reads what has grown")
    site.kubelet.end(site.alive()[0], 1)
    lives_through(site, pick, runs(site, 4, 1), "an attempt follows the failed one")
    site.admin.delete(f"{PODS.format(site.namespace)}/{site.alive()[0]}")
    lives_through(site, pick, runs(site, 5, 2), "an attempt follows the deleted one")
    site.apply(suspend=True, **CHANGED)
    lives_through(site, pick, lambda: not site.alive() and site.condition("Ready")[1] == "Suspended", "it is suspended")
    site.apply(**CHANGED)
    lives_through(site, pick, runs(site, 6, 2), "it runs again")
    site.admin.delete(f"{APPS.format(site.namespace)}/ads")
    lives_through(site, pick, lambda: not site.app() and not site.alive(), "it is gone")
    logging.getLogger(__name__).info("%d operators have died so far", DEATHS[0])
    assert sorted(set(site.kubelet.drivers.values())) == sorted(site.kubelet.drivers.values())
    assert len(site.kubelet.drivers) == 6
