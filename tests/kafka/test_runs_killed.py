"""Whole runs under load, and whatever can be killed is: readers of committed records see each row once, in order.

`HOLDFAST_SPARK_KILLS` says how many processes die, `HOLDFAST_SEED` draws which and when; `make soak` kills 110, and has
the broker away for a minute.
"""

import os
import random
import secrets
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.counted import Counted
from tests.kafka.faults import DECK, KILLS, Disturbed
from tests.kafka.load import Load, Reader, kept
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SPARK_KILLS = int(os.environ.get("HOLDFAST_SPARK_KILLS", "110" if SOAK else "7"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "1"))
ZOMBIE_EVERY = 4
"""Decks. In the second deck, which only the full length comes to, the broker is away for a minute as well."""
CHECKED_EVERY = 4
CAUGHT_UP = 120.0


@pytest.mark.long
def test_whatever_dies_under_load_rows_are_there_once_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Killed executors leave their folders behind.
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    chance = random.Random(SEED)  # noqa: S311 - to see the same again
    with Broker() as broker:
        counted = Counted.new(broker)
        reader = Reader(counted)
        with Load(counted) as load, Disturbed(counted.file(tmp_path), tmp_path, broker, chance) as app:
            try:
                disturb(app, reader, chance)
                count = load.end()
                app.caught_up()
                wait_until(lambda: reader.catch_up() == kept(count), CAUGHT_UP, "all is written")
                app.drained()
            finally:
                print(f"seed {SEED}, {load.count} rows, {app.kills} kills, {dict(app.counts)}: {', '.join(app.story)}")  # noqa: T201
        counted.check(count)
        assert set(app.counts) >= {*KILLS, "zombie"}


def disturb(app: Disturbed, reader: Reader, chance: random.Random) -> None:
    """Fault after fault, each kind as often as its place in the deck says."""
    deck: list[str] = []
    decks = 0
    while app.kills < SPARK_KILLS or deck:
        if not deck:
            # A zombie takes as long as a whole deck of the others.
            deck += DECK + (("zombie",) if decks % ZOMBIE_EVERY == 0 else ())
            deck += ("absence",) if decks == 1 else ()
            chance.shuffle(deck)
            decks += 1
        app.befall(deck.pop())
        if len(app.done) % CHECKED_EVERY == 0:
            reader.catch_up()
