"""The lives of a case's app: what arrives is the same in all of them, and so must be what comes out."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast_runtime.state.durable.copy import BUNDLE_STEPS, COLLECT_STEPS, SNAPSHOT_STEPS, SnapshotPolicy
from holdfast_runtime.state.durable.restore import RESTORE_STEPS
from holdfast_runtime.state.shared.shared_table import SHARED_STEPS
from holdfast_runtime.testing import ALL_STEPS, Crashed, Lab, TestDriver
from tests.apps.case import Case, Rows

OFTEN = SnapshotPolicy(most_deltas=2, least_deltas=1, latest_deltas=0, bundled=0, most_bundles=1)
"""Snapshots and bundles after so few batches that short lives have them, and within these."""
_RARE = (*SNAPSHOT_STEPS, *BUNDLE_STEPS, *COLLECT_STEPS, *RESTORE_STEPS, *SHARED_STEPS)
"""Steps that not every batch has. Dying there later in a life is likelier to find them."""
_DYING = 4
"""So many lives share all deaths: one dies twice a turn, each time elsewhere."""
_A_TURN = 2


class Death(NamedTuple):
    """Where a batch dies."""

    step: str
    disks_lost: bool


class LifeResult(NamedTuple):
    """What has come of a life."""

    rows: Mapping[str, Rows]
    deaths: list[Death]


_DEATHS = (
    *(Death(step, lost) for step in ALL_STEPS if step not in _RARE for lost in (False, True)),
    *(Death(step, disks_lost=False) for step in _RARE),
)


@dataclass(frozen=True)
class Life:
    """How an app lives: what happens in each turn, when rows have arrived and none has been read."""

    slots: int = 2
    attempts: int = 1
    """So many attempts have the first batches of a turn, one each."""
    disks_lost: bool = False
    """Whether each of them finds empty disks, as on another node."""
    grown: bool = False
    """Whether inputs get twice as many partitions after the first turn."""
    deaths: tuple[Death, ...] = ()
    """The first turn dies at the first two of them, and so on."""

    def of(self, case: Case) -> LifeResult:
        """Live it."""
        died: list[Death] = []
        with TestDriver(case.app, slots=self.slots, lab=Lab(snapshots=OFTEN)) as driver:
            for turn, _ in enumerate(_turns(driver, case)):
                deaths = self.deaths[turn * _A_TURN : (turn + 1) * _A_TURN]
                died += [death for death in deaths if outlived(driver, death)]
                for _ in range(self.attempts - 1):
                    driver.run()
                    driver.restart()
                    if self.disks_lost:
                        driver.lose_local_state()
                driver.run_until_idle()
                if self.grown and turn == 0:
                    for stream in case.inputs:
                        driver.grow(stream.name, 2 * (stream.partitions or 1))
                    driver.restart()
            return LifeResult(case.result(driver), died)


_MORE_LIVES = {
    "restarted on three slots": Life(slots=3, attempts=2),
    "moved": Life(attempts=2, disks_lost=True),
    "grown": Life(slots=3, grown=True),
}
"""`grown and moved` meets what they meet, as do restarts of `dying` lives; each by itself says sooner what it was."""
LIVES: Mapping[str, Life] = {
    "plain": Life(slots=1),
    "grown and moved": Life(slots=3, grown=True, attempts=2, disks_lost=True),
    **{f"dying {number}": Life(deaths=_DEATHS[number::_DYING]) for number in range(_DYING)},
    **(_MORE_LIVES if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else {}),
}


def _turns(driver: TestDriver, case: Case) -> Iterator[None]:
    """Let rows arrive moment by moment; at last the streams end that do."""
    for moment, arrivals in case.arrivals:
        driver.advance(moment - driver.now)
        for arrival in arrivals:
            arrival.feed(driver)
        yield
    for stream in case.inputs:
        if stream.bounded:
            driver.end(stream.name)
    yield


def outlived(driver: TestDriver, death: Death) -> bool:
    """Whether a batch has died there; the next attempt is ready to run what is left."""
    if death.step in RESTORE_STEPS:
        driver.restart()
        driver.lose_local_state()
    driver.crash_at(death.step)
    try:
        driver.run_until_idle()
    except Crashed:
        died = True
    else:
        died = False
    driver.restart()
    if death.disks_lost:
        driver.lose_local_state()
    return died
