"""Streams under other names: what a run has read of them is not read again, and what it keeps of them goes on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.planning.state_change import refusals
from holdfast.reasons import Reason
from holdfast.spec.diff import diff
from holdfast.spec.fields import ChangeCost
from holdfast.spec.parse import parse_app
from holdfast_runtime.testing import Crashed, TestDriver
from tests.engine.stateful_app import APP, AT, CLICK
from tests.spec.base_app import drop, put

NAMES = {"clicks": "a-hits", "shows": "z-shown", "owners": "people", "windowed": "per-minute", "looked-up": "names"}
WAS = {name: former for former, name in NAMES.items()}


def renamed(tree: dict[str, Any], names: Mapping[str, str], was: Mapping[str, str]) -> dict[str, Any]:
    """The app with other names for streams, whose topics stay what they are: as the run knows them by `was`."""
    text = json.dumps(tree)
    for former, name in names.items():
        text = text.replace(f'"{former}"', f'"{name}"')
    renamed_tree: dict[str, Any] = json.loads(text)
    former_of = {name: former for former, name in names.items()}
    for stream in renamed_tree["spec"]["streams"]:
        if stream["name"] in former_of:
            stream.setdefault("topic", former_of[stream["name"]])
            stream.update({"was": was[stream["name"]]} if stream["name"] in was else {})
    return renamed_tree


def test_a_renamed_stream_is_not_read_again_into_its_state() -> None:
    with TestDriver(APP) as driver:
        driver.feed("owners", [{"ad": "a", "owner": "o"}])
        driver.feed("clicks", [CLICK] * 3)
        driver.run_until_idle()
        for former, topic in (("shows", "shown"), ("owners", "owners")):
            tree = put(f"spec.streams.{former}.topic", topic, APP)
            text = (
                json.dumps(tree)
                .replace(f'"{former}"', '"renamed"')
                .replace('"topic": "renamed"', f'"topic": "{topic}"')
            )
            with pytest.raises(
                UserActionError, match=f"StreamRenamed: stream {former} is gone and renamed means the same"
            ):
                driver.restart(json.loads(text))


@pytest.mark.parametrize("distribution", ["Partitioned", "Broadcast"])
@pytest.mark.parametrize("lost", [False, True], ids=["disk kept", "disk lost"])
def test_renamed_streams_that_say_what_they_were_go_on(distribution: str, *, lost: bool) -> None:
    app = put("spec.tables.owner.distribution", distribution, APP)
    with TestDriver(app) as driver:
        driver.feed("owners", [{"ad": "a", "owner": "o"}])
        driver.feed("clicks", [CLICK] * 3)
        driver.feed("shows", [{"ad": "a", "ts": AT}])
        driver.run_until_idle()
        driver.feed("clicks", [CLICK])
        driver.crash_at("offsets durable")
        with pytest.raises(Crashed):
            driver.run_until_idle()
        driver.restart(renamed(app, NAMES, WAS))
        if lost:
            driver.lose_local_state()
        (replayed,) = driver.run()
        assert replayed.replay
        assert [task.read for task in replayed.tasks if task.read] == [{"a-hits": 1}]
        driver.feed("people", [{"ad": "b", "owner": "p"}])
        driver.run_until_idle()
        driver.feed("a-hits", [CLICK | {"ad": ad} for ad in "ab"])
        # Once more: the name of the run stays.
        again = {name: f"{name}-2" for name in WAS}
        driver.restart(renamed(renamed(app, NAMES, WAS), again, {again[name]: was for name, was in WAS.items()}))
        for stream in ("a-hits-2", "z-shown-2"):
            driver.end(stream)
        driver.run_until_idle()
        assert driver.completed
        assert sorted((row["ad"], row["clicks"]) for row in driver.rows("per-minute-2")) == [("a", 5), ("b", 1)]
        assert sorted(row["owner"] for row in driver.rows("names-2")) == ["o"] * 5 + ["p"]


def test_dead_letters_alone_have_the_new_name_of_a_stream(tmp_path: Path) -> None:
    app = put("spec.streams.clicks.onDecodeError", "DeadLetter", put("spec.streams.clicks.deadLetter", "bad", APP))
    app = put("spec.streams", [*app["spec"]["streams"], {"name": "bad", "system": "here", "partitions": 1}], app)
    names = {"clicks": "zz-clicks", "owners": "zz-owners", "bad": "zz-bad"}
    with TestDriver(app, tmp_path) as driver:
        driver.feed("clicks", [CLICK] * 3)
        driver.run_until_idle()
        driver.restart(renamed(app, names, {name: former for former, name in names.items()}))
        driver.feed("zz-owners", [{"ad": "a", "owner": "o"}])
        driver.feed("zz-clicks", [CLICK])
        driver.run_until_idle()
        files = [path for path in tmp_path.rglob("*") if path.is_file() and b"zz-" in path.read_bytes()]
        assert files == []
        driver.feed_bytes("zz-clicks", [b"nothing"])
        driver.run_until_idle()
        assert [row["stream"] for row in driver.rows("zz-bad")] == ["zz-clicks"]


def test_diff_calls_a_declared_rename_of_a_stream_a_restart() -> None:
    old = parse_app(APP)
    for was, reasons in ((WAS, set()), ({}, {Reason.STREAM_RENAMED, Reason.STATE_MISFIT})):
        new = parse_app(renamed(APP, NAMES, was))
        changes = diff(old, new).with_refusals(refusals(old, new))
        assert {change.reason for change in changes.refused if change.reason} == reasons
        assert bool(changes.refused) == bool(reasons)
    names = [one for one in diff(old, parse_app(renamed(APP, NAMES, WAS))).changes if one.path.endswith("].name")]
    assert [(one.old, one.new, one.cost) for one in names] == [(*name, ChangeCost.RESTART) for name in NAMES.items()]


def test_a_stream_of_unknown_past_or_another_topic_is_refused() -> None:
    with TestDriver(APP) as driver:
        driver.feed("clicks", [CLICK])
        driver.run_until_idle()
        hits = renamed(APP, {"shows": "hits"}, {"hits": "shows"})
        driver.restart(hits)
        for tree, refusal in (
            (renamed(APP, {"shows": "shots"}, {"shots": "hits"}), "stream shows is gone and shots .*Say `was: shows`"),
            (renamed(APP, {"shows": "shots"}, {}), "stream shows is gone and shots means the same topic"),
            (
                put("spec.streams.hits.topic", "hits", hits),
                r'spec.streams\[hits\].topic was "shown" and is "hits".*Put it back',
            ),
            (drop("spec.streams.hits.topic", hits), r'spec.streams\[hits\].topic was "shown" and is "hits"'),
        ):
            with pytest.raises(UserActionError, match=refusal):
                driver.restart(tree)


def test_a_stream_that_is_only_written_may_be_renamed() -> None:
    text = json.dumps(put("spec.streams.looked-up.topic", "names", APP))
    with TestDriver(json.loads(text)) as driver:
        driver.feed("clicks", [CLICK])
        driver.run_until_idle()
        driver.restart(json.loads(text.replace('"looked-up"', '"found"')))
        driver.feed("clicks", [CLICK])
        driver.run_until_idle()
        assert len(driver.rows("found")) == 2
