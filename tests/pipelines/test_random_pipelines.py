"""Pipelines of any verbs write what an interpreter of rows says, however they die, grow and are edited on the way.

`HOLDFAST_SEED` draws others, `make soak` 10 000 of them, and edits of all fields.
"""

import os
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.planning.plan import plan
from holdfast.spec.fields import ChangeCost
from holdfast.spec.parse import SpecInvalidError, parse_app
from tests.pipelines.drawn import Tree, drawn_app, may_grow
from tests.pipelines.edits import ALL_FIELDS, Edit, drawn_edit, edit_at, places_of
from tests.pipelines.flow import goes_by_time_since, looks_up_what_changes
from tests.pipelines.life import Life
from tests.pipelines.whole import WHOLE

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261128"))
PIPELINES = 5_000 if SOAK else 2
MOST_TURNS, MOST_EDITS = 5, 3
OF_A_FIELD, IN_A_LIFE = 12, 8
"""How many edits of a field there are at most, and of how many fields in one life; without soak there is one life."""
REFUSED = {"steps.from", "steps.late", "steps.onError", "streams.partitions", "streams.schema", "tables.sources"}
"""Fields of which the run refuses some values that the planner would take: sides that change places, rows on their way
that are no longer counted before they travel, partitions that are no multiple, columns that state does not have, side
inputs that the run does not know."""


@contextmanager
def living(app: Tree, draw: random.Random, seed: int, folder: Path) -> Iterator[Life]:
    """A life that this seed has drawn; what fails tells all of it."""
    with Life(app, draw, folder) as life:
        try:
            yield life
        except BaseException as error:
            error.add_note("\n".join((f"HOLDFAST_SEED={seed}", *life.told)))
            raise


def lived(life: Life) -> None:
    """Live some eras."""
    for _ in range(life.draw.randint(2, MOST_TURNS)):
        life.turn()
        if life.draw.random() < 0.4:
            life.end_era()
    life.end()


def edited(life: Life) -> None:
    """Live some eras, and be another app in each turn."""
    growing = may_grow(life.app) and life.draw.random() < 0.5
    for _ in range(life.draw.randint(2, MOST_TURNS)):
        life.turn()
        if life.draw.random() < 0.4:
            life.end_era()
        if growing:
            life.grow()
            growing = False
        for _ in range(life.draw.randint(0, MOST_EDITS)):
            edit = drawn_edit(life.draw, life.app["spec"])
            if life.allows(edit):
                life.edit(edit)
    life.turn()
    life.end()


@pytest.mark.parametrize("way", [lived, edited], ids=lambda way: way.__name__)
def test_a_pipeline_of_any_verbs_writes_what_an_interpreter_says(way: Callable[[Life], None], tmp_path: Path) -> None:
    for seed in range(SEED, SEED + PIPELINES):
        draw = random.Random(seed)  # noqa: S311
        with living(drawn_app(draw, timers=way is lived), draw, seed, tmp_path / str(seed)) as life:
            way(life)


def test_every_field_of_an_app_has_edits() -> None:
    assert [str(field) for field in ALL_FIELDS if not [*places_of(field, WHOLE["spec"])]] == []


def test_an_edit_that_costs_a_restart_stops_no_verb(tmp_path: Path) -> None:
    draw = random.Random(SEED)  # noqa: S311
    places = []
    for field in ALL_FIELDS:
        if field.cost < ChangeCost.NEW_RUN:
            values = range(len([*places_of(field, WHOLE["spec"])]))
            places += [(field, place) for place in draw.sample(values, min(OF_A_FIELD, len(values)))]
    draw.shuffle(places)
    for start in range(0, len(places) if SOAK else 1, IN_A_LIFE):
        with living(WHOLE, draw, SEED, tmp_path / str(start)) as life:
            for field, place in places[start : start + IN_A_LIFE]:
                for edit_place in [*places_of(field, life.app["spec"])][place : place + 1]:
                    edit = edit_at(field, edit_place, life.app["spec"])
                    if not looks_up_what_changes(edit.tree) and not goes_by_time_since(life.app["spec"], edit.tree):
                        _goes_on(life, edit)
            life.end()


def _goes_on(life: Life, edit: Edit) -> None:
    life.turn()
    if not life.allows(edit):
        life.end_era()
    app = life.app
    refusal = life.edit(edit)
    field = edit.description.partition(" of ")[0]
    assert not refusal or field in REFUSED or not _valid(app | {"spec": edit.tree}), f"{edit.description}: {refusal}"
    life.turn()


def _valid(app: Tree) -> bool:
    """Whether an app can run, if not in the place of another."""
    try:
        return plan(parse_app(app)).valid
    except SpecInvalidError:
        return False
