"""Each verb that needs no Spark SQL, in an app of its own: what comes out, where, and in which order."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast_runtime.segments.graph import SOURCE
from holdfast_runtime.slot import prepared_steps
from holdfast_runtime.testing import Crashed, TestDriver

START = datetime(2026, 1, 1, tzinfo=UTC)
CODE = """
def count(key, rows, state):
    for row in rows:
        state["n"] = state.get("n", 0) + 1
        yield {"k": key, "id": row["id"], "n": state["n"]}

def odd(key, rows, state):
    return [row for row in rows if row["id"] > 1]

def but_first(batch):
    return batch.slice(1)

def late(key, rows, state):
    for row in rows:
        state.at_event_time(row["ts"], str(row["id"]))
    for timer in state.fired:
        yield {"k": key, "id": int(timer.name), "n": 0}
"""
COUNTED = {"function": "f:count", "by": ["k"], "schema": "k STRING, id BIGINT, n BIGINT", "keeps": ["k"]}
NUMBERED = {"name": "numbered", "system": "here", "partitions": 2, "key": ["k"]}


def stream(name: str, partitions: int = 2, **more: Any) -> dict[str, Any]:
    event_time = {"eventTime": {"column": "ts", "lateness": "0s"}}
    return {
        "name": name,
        "system": "here",
        "partitions": partitions,
        "key": ["k"],
        "schema": "k STRING, id BIGINT, ts TIMESTAMP",
        **event_time,
        **more,
    }


def app(streams: list[dict[str, Any]], *steps: dict[str, Any], name: str = "verbs") -> dict[str, Any]:
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [*streams, NUMBERED],
            "steps": list(steps),
            "runtime": {"code": {"f": CODE}},
        },
    }


def rows(*ids: int, keys: int = 3) -> list[dict[str, Any]]:
    return [{"k": f"k{one % keys}", "id": one, "ts": START + timedelta(seconds=one)} for one in ids]


@pytest.mark.parametrize("verb", ["process", "apply"])
@pytest.mark.parametrize("repartitioned", [False, True])
def test_rows_keep_their_event_time_behind_a_repartition(verb: str, repartitioned: bool) -> None:
    function = {"function": f"f:{'odd' if verb == 'process' else 'but_first'}", "keeps": ["k", "ts"]}
    spec = app(
        [stream("a", 1)],
        *([{"name": "spread", "from": ["a"], "repartition": {"by": ["k"]}}] if repartitioned else []),
        {
            "name": "some",
            "from": ["spread" if repartitioned else "a"],
            verb: function | ({"by": ["k"]} if verb == "process" else {}),
        },
        {"name": "out", "from": ["some"], "to": "numbered"},
    )
    with TestDriver(spec) as driver:
        driver.feed("a", rows(1, 3, 5, 7, keys=1))
        driver.run_until_idle()
        times = sorted(record.timestamp - int(START.timestamp() * 1000) for record in driver.records("numbered"))
        assert times == [3000, 5000, 7000]


def test_repartitioned_rows_meet_by_key_in_their_tasks_order() -> None:
    spec = app(
        [stream("a", key=["id"], partitions=4)],
        {"name": "moved", "from": ["a"], "repartition": {"by": ["k"]}},
        {"name": "counted", "from": ["moved"], "process": COUNTED},
        {"name": "out", "from": ["counted"], "to": "numbered"},
    )
    with TestDriver(spec, slots=2) as driver:
        driver.feed("a", rows(*range(60)))
        origin = {
            row["id"]: record.partition for record, row in zip(driver.records("a"), driver.rows("a"), strict=True)
        }
        driver.run_until_idle()
        numbered = driver.rows("numbered")
    assert sorted(row["id"] for row in numbered) == list(range(60))
    for key in ("k0", "k1", "k2"):
        key_rows = [row for row in numbered if row["k"] == key]
        assert [row["n"] for row in key_rows] == list(range(1, 21))
        for partition in range(4):
            of_one = [row["id"] for row in key_rows if origin[row["id"]] == partition]
            assert of_one == sorted(of_one)


def test_broadcast_rows_reach_every_task_in_one_order() -> None:
    spec = app(
        [stream("a"), stream("rules", partitions=1)],
        {"name": "told", "from": ["rules"], "broadcast": {}},
        {"name": "seen", "from": ["told"], "apply": {"function": "f:seen", "schema": "k STRING, id BIGINT, n BIGINT"}},
        {"name": "out", "from": ["seen"], "to": "numbered"},
        {"name": "counted", "from": ["a"], "process": COUNTED},
        {"name": "also", "from": ["counted"], "to": "numbered"},
    )
    spec["spec"]["runtime"]["code"]["f"] += """
import pyarrow as pa

def seen(batch):
    return batch.select(["k", "id"]).append_column("n", pa.array([-1] * batch.num_rows, pa.int64()))
"""
    with TestDriver(spec, slots=2) as driver:
        driver.feed("rules", rows(7, 8, 9))
        driver.run_until_idle()
        tasks, numbered = driver.tasks, driver.rows("numbered")
    assert len(tasks) == 2
    assert sorted(row["id"] for row in numbered) == [7, 7, 8, 8, 9, 9]


def test_event_time_passes_a_repartition_and_fires_timers_behind() -> None:
    spec = app(
        [stream("a")],
        {"name": "moved", "from": ["a"], "repartition": {"by": ["k"]}},
        {"name": "waited", "from": ["moved"], "process": {**COUNTED, "function": "f:late"}},
        {"name": "out", "from": ["waited"], "to": "numbered"},
    )
    with TestDriver(spec) as driver:
        driver.feed("a", rows(*range(10), keys=9))
        driver.run_until_idle()
        # k0 is behind id 9 in one partition; the other has seen less: what is below both has fired.
        reached = driver.watermark("moved")
        assert reached is not None
        fired = {row["id"] for row in driver.rows("numbered")}
        assert fired == {one for one in range(10) if START + timedelta(seconds=one) <= reached}
        assert 0 < len(fired) < 10
        driver.feed("a", rows(*range(100, 130), keys=9))
        driver.run_until_idle()
        assert {row["id"] for row in driver.rows("numbered")} >= set(range(10))


@pytest.mark.parametrize("ended", [False, True], ids=["cut short", "ended"])
def test_a_new_run_reads_no_intermediate_rows_of_the_last(tmp_path: Path, ended: bool) -> None:
    spec = app(
        [stream("a", bounded=True)],
        {"name": "moved", "from": ["a"], "repartition": {"by": ["k"]}},
        {"name": "counted", "from": ["moved"], "process": COUNTED},
        {"name": "out", "from": ["counted"], "to": "numbered"},
    )
    with TestDriver(spec, tmp_path) as driver:
        driver.feed("a", rows(*range(10)))
        driver.end("a")
        if ended:
            driver.run_until_idle()
        else:
            driver.run()
        before = len(driver.rows("numbered"))
        assert driver.completed == ended
        assert before == (10 if ended else 0)
    spec["spec"]["runId"] = "2"
    with TestDriver(spec, tmp_path) as driver:
        driver.end("a")
        driver.crash_at("outputs committed")
        with pytest.raises(Crashed):
            driver.run()
        driver.restart()
        driver.run_until_idle()
        assert driver.completed
        numbered = driver.rows("numbered")[before:]
    assert sorted(row["id"] for row in numbered) == list(range(10))
    for key in ("k0", "k1", "k2"):
        numbers = [row["n"] for row in numbered if row["k"] == key]
        assert numbers == list(range(1, len(numbers) + 1))


def test_control_messages_carry_event_time_and_end_to_another_app(tmp_path: Path) -> None:
    shared = stream("shared", control=True, eventTime=None)
    del shared["eventTime"]
    first = app(
        [stream("a", bounded=True), shared],
        {"name": "out", "from": ["a"], "to": "shared"},
        name="first",
    )
    second = app(
        [shared],
        {"name": "waited", "from": ["shared"], "process": {**COUNTED, "function": "f:late"}},
        {"name": "out", "from": ["waited"], "to": "numbered"},
        name="second",
    )
    with TestDriver(first, tmp_path) as driver:
        driver.feed("a", rows(*range(10)))
        driver.end("a")
        driver.run_until_idle()
    with TestDriver(second, tmp_path) as driver:
        driver.run_until_idle()
        assert driver.completed
        assert sorted(row["id"] for row in driver.rows("numbered")) == list(range(10))


def test_an_unknown_verb_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_steps, "_RUN_ELSEWHERE", (SOURCE,))
    with pytest.raises(HoldfastError, match="step out: slots can't run the verb to"):
        TestDriver(app([stream("events")], {"name": "out", "from": ["events"], "to": "numbered"}), tmp_path)
