"""The list of apps as the page gets it."""

import pytest

from holdfast.api_answers import NotAllowedError
from holdfast_cli.cluster.app import APPS, CONFIG_MAPS, read_apps
from holdfast_cli.ui.list_view import AppStanding, list_view, standing_of
from tests.cli.status_objects import NOW, report
from tests.ui.clusters import STALLED, FakeCluster, Tree, whole_app

WAITS = ("False", "NoProgress", "no batch for a while")


def test_a_row_has_the_figures_of_the_newest_attempt() -> None:
    cluster = FakeCluster((APPS, whole_app()), (CONFIG_MAPS, report(lag=12)))
    (row,) = list_view(read_apps(cluster, "apps"))["apps"]
    assert row == {
        "namespace": "apps",
        "app": "ads",
        "standing": "ready",
        "reason": "Running",
        "message": "attempt 2 commits batches",
        "attempt": 2,
        "restarts": 1,
        "tasks": 4,
        "placed": "4/4",
        "lag": 12,
        "batch": 1041,
        "progressed": NOW - 2500,
        "missing": None,
        "created": NOW - 7_200_000,
    }


@pytest.mark.parametrize("fields", [{"attempt": 1}, {"progressed": None}])
def test_an_attempt_without_a_batch_has_no_lag(fields: Tree) -> None:
    cluster = FakeCluster((APPS, whole_app()), (CONFIG_MAPS, report(lag=12, **fields)))
    (row,) = list_view(read_apps(cluster, "apps"))["apps"]
    assert (row["lag"], row["batch"], row["progressed"]) == (None, None, None)


def test_those_that_need_somebody_come_first() -> None:
    cluster = FakeCluster()
    cluster.add(
        APPS,
        whole_app("a-ready"),
        whole_app("b-off", {"Ready": ("False", "Suspended", "it is suspended")}),
        whole_app("c-unknown", conditions=[]),
        whole_app("d-changing", {"Ready": WAITS, "Reconciling": ("True", "Starting", "attempt 2 starts")}),
        whole_app("e-not-ready", {"Ready": WAITS}),
        whole_app("g-stalled", STALLED),
        whole_app("f-stalled", STALLED),
    )
    rows = list_view(read_apps(cluster, "apps"))["apps"]
    assert [row["app"] for row in rows] == [
        "f-stalled",
        "g-stalled",
        "e-not-ready",
        "d-changing",
        "c-unknown",
        "b-off",
        "a-ready",
    ]
    assert [row["standing"] for row in rows[1:]] == list(AppStanding)


def test_a_verdict_on_an_older_generation_is_unknown() -> None:
    apps = read_apps(FakeCluster((APPS, whole_app())), "apps").apps
    assert standing_of(apps[0][0]) is AppStanding.READY
    older = whole_app()
    older["metadata"]["generation"] = 4
    assert standing_of(read_apps(FakeCluster((APPS, older)), "apps").apps[0][0]) is AppStanding.UNKNOWN


def test_reports_that_nobody_may_read_are_said_once() -> None:
    cluster = FakeCluster((APPS, whole_app("a")), (APPS, whole_app("b")), (CONFIG_MAPS, report("b")))
    view = list_view(read_apps(cluster, "apps"))
    assert view["missing"] is None
    assert [row["missing"] for row in view["apps"]] == ["its driver has not reported yet", None]
    cluster.refused[CONFIG_MAPS] = NotAllowedError("you may not list configmaps")
    assert list_view(read_apps(cluster, "apps"))["missing"] == "you may not list configmaps"
