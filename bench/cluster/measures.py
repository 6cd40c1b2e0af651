"""The measures of the cluster, each as the few steps that make its figure.

The clock starts before the harm and stops at the first row that did not exist before it. Must not print.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from bench.cluster.holdfast_app import Ours, ours, without_archive
from bench.cluster.place import Life, Make
from bench.cluster.stock import stock
from bench.cluster.subject import PARTITIONS
from tests.waiting import wait_until

GROWN = 4
_READY = 180.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What sizes a measure has."""

    state_mb: int
    restarts: int
    seed: int


@dataclass(frozen=True, slots=True)
class Taken:
    """One run."""

    seconds: float
    notes: Mapping[str, str] = field(default_factory=dict)


Measure = Callable[[Life, Asked], Sequence[Taken]]


@dataclass(frozen=True, slots=True)
class What:
    """A figure: what it says, and each way with how it is taken."""

    title: str
    ways: Mapping[str, tuple[Make, Measure]]
    once: bool = False
    """Its runs are inside of it."""


def applied(life: Life, _: Asked) -> list[Taken]:
    """The image is on the nodes, and rows wait in the topic."""
    with _timed() as took:
        life.subject.apply()
        life.flow.first()
    return [_checked(life, took())]


def driver_killed(life: Life, settings: Asked) -> list[Taken]:
    """Deleted by force; the disks of executors stay."""
    life.begins()
    life.fills(settings.state_mb)
    with _timed() as took:
        life.subject.kill_driver()
        life.flow.again()
    return [_checked(life, took(), **_restored(life, lost=False))]


def resumed(life: Life, settings: Asked, *, lost: bool) -> list[Taken]:
    """Suspended and taken up again. `lost`: on empty disks."""
    life.begins()
    life.fills(settings.state_mb)
    life.subject.suspend()
    if lost:
        assert isinstance(life.subject, Ours)  # noqa: S101 - stock Spark has no disks of its own
        life.subject.empty_disks()
    with _timed() as took:
        life.subject.resume()
        life.flow.again()
    return [_checked(life, took(), **_restored(life, lost=lost))]


def node_lost(life: Life, _: Asked) -> list[Taken]:
    """The driver's: its power fails."""
    life.begins()
    lost = life.subject.driver()["spec"]["nodeName"]
    installed = life.place.installed
    pod = installed.cluster.tree("pod", installed.operator(), "--namespace=holdfast-system")
    with _timed() as took:
        installed.cluster.stop_node(lost)
        life.flow.again()
    life.place.whole()
    return [_checked(life, took(), operator="lost too" if pod["spec"]["nodeName"] == lost else "elsewhere")]


def grown(life: Life, _: Asked) -> list[Taken]:
    """The topic has twice as many partitions, with a row in each new one."""
    life.begins()
    with _timed() as took:
        life.counted.broker.grow_topic(life.counted.rows, GROWN)
        life.flow.marked(range(PARTITIONS, GROWN), GROWN)
    return [_checked(life, took())]


def located(life: Life, settings: Asked) -> list[Taken]:
    """Restarts drawn by lot, one after the other; which of its tasks are where they were."""
    subject = life.subject
    assert isinstance(subject, Ours)  # noqa: S101 - the only one that has places
    app, drawn = subject.app, random.Random(settings.seed)
    life.begins()
    app.ready()
    measurements = []
    for _ in range(settings.restarts):
        before, attempt, known = app.nodes(), app.attempt(), len(app.restored())
        kind = drawn.choice(("driver", "executor", "both"))
        with _timed() as took:
            if kind != "driver":
                app.kill(drawn.choice(sorted(app.executors())))
            if kind != "executor":
                subject.kill_driver()
            life.flow.again()
        wait_until(lambda: len(app.executors()) == 2, _READY, "two executors run")
        app.ready()
        restored = len(app.restored()) - (known if app.attempt() == attempt else 0)
        back = len(before.items() & app.nodes().items())
        notes = {"killed": kind, "tasks": str(len(before)), "back": str(back), "restored": str(restored)}
        measurements.append(Taken(took(), notes))
    _checked(life, 0)
    return measurements


@contextmanager
def _timed() -> Iterator[Callable[[], float]]:
    """How long the block took, once it is over."""
    began = time.monotonic()
    ended: list[float] = []
    yield lambda: ended[0]
    ended.append(time.monotonic() - began)


def _checked(life: Life, seconds: float, **notes: str) -> Taken:
    """No figure for what loses rows, nor for ours if it doubles one; how many stock doubled is told."""
    life.flow.settles()
    doubles = life.flow.doubles
    if isinstance(life.subject, Ours):
        if doubles:
            message = f"{doubles} rows came out twice, so there is nothing to compare"
            raise ValueError(message)
        return Taken(seconds, notes)
    return Taken(seconds, {**notes, "doubled": str(doubles)})


def _restored(life: Life, *, lost: bool) -> dict[str, str]:
    """No figure for kept disks where state was restored, nor the other way round."""
    restored = life.subject.restored()
    if restored is None:
        return {}
    if bool(restored) != lost:
        message = f"{restored} tasks were restored from disks that were {'emptied' if lost else 'kept'}"
        raise ValueError(message)
    return {"restored": str(restored)}


_STOCK = "stock Spark"
_LIVE = partial(ours, onPartitionGrowth="Live")
WHATS: dict[str, What] = {
    "apply": What(
        "kubectl apply -> first committed row",
        {
            "Holdfast": (ours, applied),
            "Holdfast, no class archive": (without_archive, applied),
            _STOCK: (stock, applied),
        },
    ),
    "driver": What(
        "driver pod deleted by force -> a row made after its end",
        {"Holdfast, disks kept": (ours, driver_killed), _STOCK: (stock, driver_killed)},
    ),
    "driver-restored": What(
        "resumed -> a new row",
        {
            "Holdfast, disks kept": (ours, partial(resumed, lost=False)),
            "Holdfast, disks emptied": (ours, partial(resumed, lost=True)),
            _STOCK: (stock, partial(resumed, lost=False)),
        },
    ),
    "node": What(
        "power of the driver's node off -> a new row", {"Holdfast": (ours, node_lost), _STOCK: (stock, node_lost)}
    ),
    "growth": What(
        f"topic of {PARTITIONS} -> {GROWN} partitions: rows of each new one out",
        {"Holdfast, by restart": (ours, grown), "Holdfast, live": (_LIVE, grown), _STOCK: (stock, grown)},
    ),
    "locality": What("random restarts -> a new row", {"Holdfast": (ours, located)}, once=True),
}
