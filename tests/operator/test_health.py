"""Whether an operator notices that it is not well, and the figures it gives."""

import asyncio
from typing import Any

import aiohttp
import pytest

from holdfast.protocol.report import REPORT_KEY, DriverReport
from holdfast_operator.cluster import APP, POD
from holdfast_operator.decide.decision import LookAgain, NextLook
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.main import until_one_ends
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.service.look_queue import LookQueue
from holdfast_operator.service.monitoring import (
    LONGEST_OVERDUE,
    LONGEST_SILENCE,
    Health,
    Metrics,
    WatchSigns,
    WatchSilentError,
    health_server,
    late_looks,
    silent_watches,
)
from tests.kafka.broker import free_ports

KEY = AppKey("apps", "ads")


def tree(version: int, **status: Any) -> dict[str, Any]:
    metadata = {"namespace": "apps", "name": "ads", "uid": "u", "resourceVersion": str(version), "managedFields": [1]}
    return {"metadata": metadata, "status": status}


def test_a_silent_watch_is_noticed_beside_living_ones() -> None:
    now = 100.0
    signs = WatchSigns(lambda: now)
    signs.expect([(APP, None), (POD, "apps"), (POD, "more")])
    now += LONGEST_SILENCE
    signs.heard(APP, None)
    signs.heard(POD, "more")
    assert silent_watches(signs) is None
    now += 1
    assert silent_watches(signs) == "the watch of pods in apps has been silent for 121 s"
    signs.heard(POD, "apps")
    assert silent_watches(signs) is None


def test_a_write_the_watch_reported_first_is_not_waited_for() -> None:
    now = 100.0
    cache, signs = WatchCache(), WatchSigns(lambda: now)
    signs.expect([(APP, None)])
    cache.saw_app(tree(1))
    cache.saw_app(tree(5))
    cache.read_app(tree(5))
    for _ in range(10):
        now += 60
        signs.heard(APP, None)  # a bookmark: nothing else comes for this app
        assert silent_watches(signs) is None


def test_the_first_part_to_end_ends_the_operator_by_name(caplog: pytest.LogCaptureFixture) -> None:
    ended_parts: list[str] = []

    async def lives() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended_parts.append("ended")

    async def story(signs: WatchSigns) -> None:
        await until_one_ends({"looks": lives(), "signs of life": signs.run()})

    signs = WatchSigns(iter([0.0, 121.0, 121.0]).__next__)
    signs.expect([(APP, None)])
    with pytest.raises(WatchSilentError, match="the watch of streamapps has been silent for 121 s"):
        asyncio.run(story(signs))
    assert ended_parts == ["ended"]
    assert "the operator ends, as its signs of life ended: " in caplog.text


def test_a_write_does_not_bring_a_deleted_app_back() -> None:
    cache = WatchCache()
    cache.saw_app(tree(1))
    cache.forget_app(tree(2))
    cache.read_app(tree(2))
    assert cache.app(KEY) is None


def test_our_write_counts_until_the_watch_reports_a_newer_one() -> None:
    cache = WatchCache()
    cache.saw_app(tree(1))
    cache.read_app(tree(5, attempt=2))
    cache.saw_app(tree(3, attempt=1))
    known = cache.app(KEY)
    assert known is not None
    assert known["status"] == {"attempt": 2}
    assert "managedFields" not in known["metadata"]
    cache.saw_app(tree(7, attempt=3))
    assert (cache.app(KEY) or {})["status"] == {"attempt": 3}
    cache.forget_app(tree(8))
    assert cache.app(KEY) is None


def test_looks_that_are_late_are_noticed() -> None:
    async def story() -> None:
        async def look(_: AppKey) -> NextLook:
            return LookAgain(1000)

        looks = LookQueue(look, lambda *_: None)
        now = asyncio.get_running_loop().time()
        looks.soon(KEY)
        assert late_looks(looks, now + LONGEST_OVERDUE - 1) is None
        assert late_looks(looks, now + LONGEST_OVERDUE + 1) is not None

    asyncio.run(story())


def test_a_probe_names_faults_and_prometheus_gets_figures() -> None:
    (port,) = free_ports(1)
    wrong: list[str] = []
    metrics, cache = Metrics(), WatchCache()
    metrics.watch(cache, lambda: 2)
    metrics.called("list", "Pod", 200)
    metrics.looked(0.2, 0.3)
    cache.saw_app(tree(1, conditions=[{"type": "Ready", "status": "True", "reason": "Running"}]))
    driver_report = DriverReport(1, 1, tasks=8, placed=6)
    report = {"metadata": {"namespace": "apps", "name": "ads-report"}, "data": {REPORT_KEY: driver_report.text()}}
    cache.saw_report(report, deleted=False)

    async def ask(path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()

    async def story() -> None:
        health = Health([lambda: None, lambda: wrong[0] if wrong else None])
        async with health_server((port,), health, metrics):
            assert await ask("/healthz") == (200, "ok")
            wrong.append("a look is late")
            assert await ask("/healthz") == (503, "a look is late")
            _, text = await ask("/metrics")
        assert 'holdfast_operator_api_calls_total{code="200",kind="Pod",verb="list"} 1.0' in text
        assert 'holdfast_apps{ready="True",reason="Running"} 1.0' in text
        assert "holdfast_operator_namespaces_of_others 2.0" in text
        assert "holdfast_tasks 8.0" in text
        assert "holdfast_tasks_placed 6.0" in text
        assert "holdfast_operator_lag_seconds_count 1.0" in text

    asyncio.run(story())
