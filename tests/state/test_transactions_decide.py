"""Where one transaction has all outputs it decides the batch, whoever still computes it, and however often."""

import os
import random
import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable import delta_writes
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.store.delta import Delta, PackedDelta, pack_delta
from tests.state.decided_worlds import Inline, drawn
from tests.state.places import TASK, Disk

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
RUNS = 3000 if SOAK else 60
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "1"))


@dataclass
class OneTransaction:
    """Knows of one delta that it was committed, once its name is taken."""

    durable: DurableCopy
    delta: PackedDelta
    is_taken: bool = False
    decides = "events"

    def hold(self) -> None:
        """Nobody takes the name here."""

    def take(self) -> None:
        # Whoever had found the same delta was a moment sooner.
        self.durable.write_delta(self.delta, retry=1)
        self.is_taken = True

    def has(self, delta: Delta) -> bool:
        return self.is_taken and delta.digest == self.delta.delta.digest


def test_what_another_process_commits_meanwhile_is_taken_up(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    first, second = (
        pack_delta(Delta(TASK, 0, 1, None, {"rows": [(b"k", value)]}, {"out": value}, withheld="events"))
        for value in (b"first", b"second")
    )
    with disk.open(0).store as store:
        part = TaskCommit(store, disk.durable, 0)
        disk.durable.fence(1)
        disk.durable.write_delta(first)
        (delta,) = commit(
            [part], 1, lambda _: pytest.fail("computed again"), lambda *_: None, OneTransaction(disk.durable, second)
        )
        assert delta.digest == second.delta.digest
        assert store.table("rows").get(b"k") == b"second"


def test_what_is_seen_is_what_the_state_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_writes, "_POOLS", Inline())
    seeds = random.Random(SEED)  # noqa: S311 - to see the same again
    for run in range(RUNS):
        folder = tmp_path / str(run)
        folder.mkdir()
        drawn(folder, seeds.randrange(1 << 32))
