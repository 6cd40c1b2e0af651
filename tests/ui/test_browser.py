"""The page in a real browser, over a cluster of 500 apps and an app of 1 000 tasks."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.api_answers import NotAllowedError
from holdfast.protocol.names import attempt_name
from holdfast.protocol.report import MOST_STREAMS
from holdfast_cli.cluster.app import APPS, CONFIG_MAPS, EVENTS, PODS, ObjectKind
from holdfast_cli.output.amounts import rate
from holdfast_cli.ui.looks import ClusterLooks
from holdfast_cli.ui.server import PageServer
from tests.cli.status_objects import NOW, report
from tests.ui.browser import Browser
from tests.ui.clusters import FLOW, HOSTILE, FakeCluster, Tree, cluster_of, event, pods_of_attempt, whole_app

APPS_SHOWN, TASKS = 500, 1_000
ROWS = "document.querySelectorAll('.apps tbody tr').length"
FIRST = "document.querySelector('.apps tbody tr').textContent"
RATES = "[...document.querySelectorAll('.plan .rate:not([hidden]) text')].map((text) => text.textContent)"
TROUBLE = "document.querySelector('#trouble')"
DRIVER = attempt_name("ads", "1", 2)


@contextmanager
def served(cluster: FakeCluster, *namespaces: str) -> Iterator[str]:
    """The address of a page of this cluster."""
    server = PageServer(ClusterLooks(lambda: cluster, "test", namespaces, time.monotonic), 0)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        server.close()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def clean(browser: Browser) -> Iterator[Browser]:
    """The browser, in which nothing may be wrong with a page."""
    browser.complaints.clear()
    yield browser
    browser.open("about:blank")
    assert browser.complaints == []


def test_many_apps_are_listed_filtered_and_sorted(clean: Browser) -> None:
    with served(cluster_of(APPS_SHOWN, TASKS, 10)) as address:
        clean.open(address)
        clean.until(f"{ROWS} === {APPS_SHOWN}")
        print(f"{APPS_SHOWN} apps shown after {clean.value('performance.now()'):.0f} ms")  # noqa: T201 - read with -s
        assert clean.value(FIRST).startswith("■stalledappsapp-000CheckpointMissing")
        clean.press("/")
        clean.type("app-12 running")
        clean.until(f"{ROWS} === 9")
        assert "9 of 500 apps" in clean.value("document.querySelector('.summary').textContent")
        clean.value("document.querySelector('#filter').value = ''")
        clean.type(" ")
        clean.until(f"{ROWS} === {APPS_SHOWN}")
        clean.value("[...document.querySelectorAll('th button')].find((b) => b.textContent === 'Lag').click()")
        assert "1,234,567" in clean.value(FIRST)


def test_an_app_opens_with_its_tasks_plan_and_log(clean: Browser) -> None:
    with served(cluster_of(20, TASKS, 10)) as address:
        clean.open(address)
        clean.until(f"{ROWS} === 20")
        clean.value("[...document.querySelectorAll('.apps a')].find((a) => a.textContent === 'ads').focus()")
        clean.press("Enter")
        began = clean.value("performance.now()")
        clean.until(f"document.querySelectorAll('.tasks span').length === {TASKS}")
        clean.until("document.querySelector('.plan svg')")
        print(f"an app of {TASKS} tasks shown after {clean.value('performance.now()') - began:.0f} ms")  # noqa: T201 - read with -s
        assert clean.value("document.title") == "ads · Holdfast"
        clean.until("document.querySelector('.plan .lag').textContent === '1,234,567 unread'")
        assert clean.value(RATES) == ["1.2 k/s", "0/s"]
        failures = clean.value("document.querySelector('section[aria-label=Failures]').textContent")
        assert "no broker" in failures
        assert "ended with 137, OOMKilled" in failures
        clean.value(f"document.querySelector('[aria-label=\"log of {DRIVER}\"]').click()")
        clean.until("document.querySelector('pre').textContent.endsWith('batch 799 committed')")
        assert clean.value("document.querySelector('pre').textContent.split('\\n').length") == 500
        clean.press("Escape")
        clean.until(f"{ROWS} === 20")
        clean.open(f"{address}#/apps/apps/app-010")
        clean.until("document.querySelector('details[open] code')")
        assert "`" not in clean.value("document.querySelector('details').textContent")


def app_that_flows(**fields: Any) -> FakeCluster:
    """An app whose driver reports this."""
    return FakeCluster((APPS, whole_app()), (CONFIG_MAPS, report(**fields)))


def test_rows_a_second_are_on_lines_while_they_are_known(clean: Browser) -> None:
    cluster = app_that_flows(rows=FLOW)
    with served(cluster) as address:
        clean.open(f"{address}#/apps/apps/ads")
        clean.until(f"{RATES}.join() === '1.2 k/s,0/s'")
        for rows, shown in (
            ({"read": {"clicks": 0.4}, "written": {"out": 15.0}}, "0.4/s,15/s"),
            ({"read": {f"s{number}": 9.0 for number in range(MOST_STREAMS)}, "written": {}}, "0/s"),
            (None, ""),
            (FLOW, "1.2 k/s,0/s"),
        ):
            cluster.objects[-1] = (CONFIG_MAPS, report(rows=rows))
            clean.until(f"{RATES}.join() === '{shown}'")
        clean.value(f"void (Date.now = () => {NOW + 150_000})")
        clean.until(f"{RATES}.length === 0")
        assert "1,041" in clean.value("document.querySelector('.facts').textContent")


def test_rates_are_written_as_the_commands_write_them(clean: Browser) -> None:
    numbers = [0, 0.04, 0.4, 1, 9.94, 9.96, 12.3, 999.4, 999.6, 1_234, 12_345.6, 999_940, 999_960, 5e6, 1e18, 1e24]
    with served(app_that_flows()) as address:
        clean.open(address)
        clean.until(f"{ROWS} === 1")
        module = "new URL('dom.js', document.querySelector('script').src)"
        written = clean.value(f"import({module}).then(({{ rate }}) => {numbers}.map(rate))")
    assert written == [rate(number) for number in numbers]


def test_a_log_that_is_chosen_again_is_that_pods(clean: Browser) -> None:
    cluster = cluster_of(3, 4, 1)
    before = attempt_name("ads", "1", 1)
    cluster.logs[before] = (b"no broker",)
    with served(cluster) as address:
        clean.open(f"{address}#/apps/apps/ads")
        for pod, end in ((DRIVER, "batch 799 committed"), (before, "no broker"), (DRIVER, "batch 799 committed")):
            clean.until(f"document.querySelector('[aria-label=\"log of {pod}\"]')")
            clean.value(f"document.querySelector('[aria-label=\"log of {pod}\"]').click()")
            clean.until(f"document.querySelector('pre').textContent.endsWith('{end}')")


def hostile_cluster() -> FakeCluster:
    """Everything that others write is HTML."""
    verdicts = {"Ready": ("False", "NoProgress", HOSTILE), "Stalled": ("True", "NoProgress", HOSTILE)}
    app = whole_app(verdicts=verdicts, draining=HOSTILE[:60])
    app["spec"]["steps"][0] = {"name": "kept", "from": ["clicks"], "filter": f"k <> '{HOSTILE[:40]}'"}
    app["spec"]["steps"].append({"name": "written", "from": ["kept"], "to": "out"})
    cluster = FakeCluster((APPS, app), (APPS, whole_app(HOSTILE)))
    cluster.add(CONFIG_MAPS, report(heldBack=HOSTILE))
    cluster.add(EVENTS, event("Bad", HOSTILE, "Warning"))
    pods = pods_of_attempt(1)
    pods[0]["status"] |= {"reason": HOSTILE, "message": HOSTILE}
    cluster.add(PODS, *pods)
    cluster.logs[DRIVER] = (HOSTILE.encode(),)
    return cluster


def test_texts_of_others_stay_texts(clean: Browser) -> None:
    with served(hostile_cluster()) as address:
        clean.open(address)
        clean.until(f"{ROWS} === 2")
        assert HOSTILE in clean.value("document.querySelector('.apps').textContent")
        clean.open(f"{address}#/apps/apps/ads")
        clean.until("document.querySelector('.plan svg')")
        clean.value(f"document.querySelector('[aria-label=\"log of {DRIVER}\"]').click()")
        clean.until("document.querySelector('pre').textContent.includes('onerror')")
        for section in ("Conditions", "Failures", "Pods", "Events", "Log"):
            text = clean.value(f"document.querySelector('section[aria-label={section}]').textContent")
            assert HOSTILE in text, section
        assert HOSTILE in clean.value("document.querySelector('.remarks').textContent")
        assert "<img" in clean.value("document.querySelector('.plan').textContent")
        assert clean.value("document.querySelectorAll('main img, main script').length") == 0
        assert clean.value("document.title") == "ads · Holdfast"


def test_namespaces_that_may_not_be_seen_are_named(clean: Browser) -> None:
    class Partly(FakeCluster):
        def find(self, kind: ObjectKind, namespace: str | None, query: Mapping[str, str]) -> list[Tree]:
            if namespace == "shop":
                message = "you may not list apps in shop"
                raise NotAllowedError(message)
            return super().find(kind, namespace, query)

    with served(Partly((APPS, whole_app())), "apps", "shop") as address:
        clean.open(address)
        clean.until(f"{ROWS} === 1")
        assert clean.value("document.querySelector('.note').textContent").startswith(
            "Apps are missing here: you may not"
        )
        assert clean.value("document.querySelector('#where').textContent") == "test · apps, shop"
        assert clean.value("getComputedStyle(document.querySelector('td.namespace')).display") == "table-cell"


def test_trouble_is_shown_and_the_page_goes_on(clean: Browser) -> None:
    cluster = cluster_of(3, 4, 1)
    with served(cluster) as address:
        cluster.trouble = NotAllowedError("you may not; ask for the right to list apps")
        clean.open(address)
        clean.until(f"{TROUBLE}?.hidden === false")
        assert "ask for the right to list apps" in clean.value(f"{TROUBLE}.textContent")
        cluster.trouble = None
        clean.until(f"{ROWS} === 3 && {TROUBLE}.hidden")
        cluster.trouble = NotAllowedError("the cluster is away")
        clean.until(f"{TROUBLE}?.hidden === false")
        assert "What follows is" in clean.value(f"{TROUBLE}.textContent")
        assert clean.value(ROWS) == 3
