"""What `holdfast status` shows, from the objects of a cluster to the lines on a terminal."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.protocol.names import assignment_name, attempt_name, report_name
from holdfast.times import stamp
from holdfast_cli.cluster.app import (
    CONFIG_MAPS,
    EVENTS,
    AppDetail,
    AppList,
    AppUnknownError,
    Missing,
    read_app,
    read_apps,
)
from holdfast_cli.cluster.status_view import app_json, print_app, print_apps
from tests.cli.conftest import Holdfast
from tests.cli.status_objects import NOW, Tree, Trees, app, config_map, event, handed, report


def shown(print_it: Callable[[Console], None]) -> str:
    file = io.StringIO()
    print_it(Console(file=file, width=10_000, soft_wrap=True))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def page(detail: AppDetail, *, all_tasks: bool = False) -> str:
    return shown(lambda console: print_app(console, detail, NOW, all_tasks=all_tasks))


def lines(trees: Trees, namespace: str | None = "apps") -> str:
    apps = read_apps(trees, namespace)
    return shown(lambda console: print_apps(console, apps, NOW, namespace=namespace))


def test_an_app_that_does_well() -> None:
    events = (event(5_000, "Starting", "attempt 2 starts"), event(9_000, "DriverFailed", "no broker", "Warning"))
    detail = read_app(Trees(app(), maps=(report(), handed()), events=events), "apps", "ads")
    assert page(detail) == (
        f"""\
ads  in apps: ready, Running
  attempt 2 commits batches

CONDITION         STATUS  SINCE       REASON        MESSAGE
Ready             True    3 min 20 s  Running       as above
Reconciling       False   3 min 20 s  Settled       Nothing is being changed.
Stalled           False   3 min 20 s  NotStalled    Nothing waits for somebody to act.
PlanValid         True    3 min 20 s  PlanAccepted  4 tasks; 0 warnings
Assigned          True    3 min 20 s  Assigned      4 tasks
LocalityHonoured  True    3 min 20 s  AllPlaced     4 of 4 tasks
DriverRunning     True    3 min 20 s  Running       pod ads-2
StateCompatible   True    3 min 20 s  StateFits     What the app is now can go on with the state of its run.
TablesLoaded      True    3 min 20 s  TablesLoaded  Every table that the app's inputs wait for is loaded.

attempt     2 of run 1, 1 restart; pod {attempt_name("ads", "1", 2)}
report      1.0 s ago
last batch  1,041, committed 2.5 s ago
lag         12 records unread when the batch was planned
tasks       4, 4 of them where their state is; 8 input partitions
assignment  version 1 is applied

LOCATION  PROCESSOR   TASKS  WHICH
claim-0   ads-exec-0      2  partition-0, partition-2
claim-1   ads-exec-1      2  partition-1, partition-3

EVENT         WHEN       WHAT
DriverFailed  9.0 s ago  no broker
Starting      5.0 s ago  attempt 2 starts"""
    )


def test_what_is_wrong_comes_first_with_what_to_do() -> None:
    verdicts = {
        "Ready": ("False", "NoProgress", "10 records wait; see its log"),
        "Reconciling": ("True", "NoProgress", "10 records wait; see its log"),
        "Stalled": ("True", "NotAMultiple", "give clicks 8 partitions"),
        "Assigned": ("Unknown", "NotYetKnown", "nothing seen"),
        "LocalityHonoured": ("False", "TasksAway", "1 of 4 tasks run away from their state"),
    }
    text = page(read_app(Trees(app(verdicts=verdicts)), "apps", "ads")).splitlines()
    assert text[:3] == [
        "ads  in apps: not ready, NoProgress",
        "  10 records wait; see its log",
        "  what it means: holdfast explain NoProgress",
    ]
    order = ["Stalled", "Ready", "LocalityHonoured", "Reconciling", "Assigned"]
    assert [line.split()[0] for line in text[5:10]] == order


UNWATCHED = "  the operator has not looked at it yet; is it installed, does it run, and does it watch namespace apps?"


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        (app(retryAt=stamp(NOW + 12_000), ended="Failed", failures=3), "next        attempt in 12 s, at 2027-"),
        (app(failures=3), "attempt     2 of run 1, 1 restart, 3 failures in a row; pod ads-"),
        (app(ended="Failed"), "ended       Failed"),
        (app(draining="SpecChanged"), "draining    SpecChanged"),
        (app(attempt=3), "report      not known: attempt 3 has not reported yet, only attempt 2 has"),
        (app(runId=None), "report      not known: no attempt has been started"),
        (app(generation=4), "  the operator has not looked at generation 4 yet; what follows is older"),
        (app(conditions=[]), UNWATCHED),
        (app(conditions=[7]), UNWATCHED),
        (app(conditions="spoilt"), UNWATCHED),
        (app(ofANewerRelease={"a": 1}), "ads  in apps: ready, Running"),
    ],
)
def test_each_state_of_an_app_has_its_line(tree: Tree, line: str) -> None:
    text = page(read_app(Trees(tree, maps=(report(),)), "apps", "ads"))
    assert any(one.startswith(line) for one in text.splitlines()), text


@pytest.mark.parametrize(
    ("maps", "line"),
    [
        ((), "report      not known: its driver has not reported yet"),
        ((report(progressed=None),), "last batch  none committed yet"),
        (
            (report(lags={"clicks": 10, "views": 2, "idle": 0}),),
            "lag         12 records unread when the batch was planned: clicks 10, views 2",
        ),
        (
            (report(lags={f"s{number}": 1 for number in range(7)}),),
            "lag         12 records unread when the batch was planned: s0 1, s1 1, s2 1, s3 1, s4 1, ...",
        ),
        (
            (report(rows={"read": {"clicks": 1_234.0, "views": 0.5}, "written": {"out": 12.0}}),),
            "rows        read clicks 1.2 k/s, views 0.5/s; written out 12/s",
        ),
        ((report(rows={"read": {}, "written": {}}),), "rows        read 0/s; written 0/s"),
        (
            (report(rows={"read": {f"s{number}": 1.0 for number in range(7)}}),),
            "rows        read s0 1/s, s1 1/s, s2 1/s, s3 1/s, s4 1/s, ...; written 0/s",
        ),
        ((report(heldBack="clicks/3 is idle"),), "held back   clicks/3 is idle"),
        ((report(waiting=1234),), "waiting     1,234 rows for partners in joins"),
        ((config_map(report_name("ads", "1"), "report.json", "{"),), "report      not known: ConfigMap ads-"),
        ((report(assignment=0),), "assignment  the driver's own is applied; the one handed over is not known: no "),
        ((report(), handed(version=2)), "assignment  version 1 is applied; version 2 below is handed over and not "),
        ((report(), handed(attempt=1)), "assignment  version 1 is applied; version 1 below was for attempt 1"),
        (
            (report(), config_map(assignment_name("ads", "1"), "assignment.json", "[]")),
            "assignment  version 1 is applied; the one handed over is not known: assignment.json is no assignment",
        ),
    ],
)
def test_each_state_of_report_and_assignment_has_its_line(maps: tuple[Tree, ...], line: str) -> None:
    text = page(read_app(Trees(app(), maps=maps), "apps", "ads"))
    assert any(one.startswith(line) for one in text.splitlines()), text


@pytest.mark.parametrize("maps", [(report(),), (report(at=NOW - 120_000, rows={"read": {"clicks": 5.0}}),)])
def test_without_a_fresh_report_no_rates_are_shown(maps: tuple[Tree, ...]) -> None:
    text = page(read_app(Trees(app(), maps=maps), "apps", "ads"))
    assert "lag         12 records" in text
    assert "rows  " not in text


def chain(name: str, by: str | None, why: str | None) -> Tree:
    return report(name, heldBack=why, heldBy=by)


def test_who_holds_a_watermark_back_is_followed_through_the_apps() -> None:
    between = "between/0: no watermark yet, for 2 h: waiting for task t of app first, last heard 2 h ago"
    maps = (
        chain("ads", "first", between),
        chain("first", "cleaned", "raw/1: waiting for task u of app cleaned, never heard"),
    )
    trees = Trees(app(), app("first"), maps=maps)
    assert f"""\
held back   {between}
  because   first is ready, its last batch 2.5 s ago: raw/1: waiting for task u of app cleaned, never heard
  because   cleaned is not known: there is no StreamApp cleaned in namespace apps (there are: ads, first)
""" in page(read_app(trees, "apps", "ads"))


@pytest.mark.parametrize(
    ("upstream", "chain_map", "line"),
    [
        (
            app("first"),
            report("first"),
            "first is ready, its last batch 2.5 s ago: nothing that is known holds it back",
        ),
        (
            app("first", verdicts={"Ready": ("False", "Suspended", "spec.suspend is set")}),
            report("first"),
            "first is not ready, Suspended: spec.suspend is set",
        ),
        (
            app("first", verdicts={"Ready": ("True", "Completed", "All inputs have ended.")}),
            report("first"),
            "first is ready, Completed: All inputs have ended.",
        ),
        (
            app("first"),
            chain("first", "ads", "it waits for ads"),
            "first is ready, its last batch 2.5 s ago: it waits ",
        ),
        (app("first"), report("first", attempt=1), "first has a report that is not known: attempt 2 has not reported "),
        (app("first"), report("other"), "first has a report that is not known: its driver has not reported yet"),
    ],
)
def test_the_app_that_is_waited_for_has_a_line(upstream: Tree, chain_map: Tree, line: str) -> None:
    trees = Trees(app(), upstream, maps=(chain("ads", "first", "it waits"), chain_map))
    detail = read_app(trees, "apps", "ads")
    assert f"  because   {line}" in page(detail)
    assert page(detail).count("because") == 1
    assert [one["app"] for one in app_json(detail)["upstream"]] == ["first"]


def test_what_held_back_long_ago_is_said_with_its_age() -> None:
    maps = (report(heldBack="it waits", progressed=NOW - 7_200_000),)
    assert "held back   it waits (as of 2 h 0 min ago)" in page(read_app(Trees(app(), maps=maps), "apps", "ads"))


def test_what_may_not_be_seen_is_missing_and_said() -> None:
    trees = Trees(app())
    trees.refused = {CONFIG_MAPS, EVENTS}
    detail = read_app(trees, "apps", "ads")
    text = page(detail)
    assert "report      not known: you may not see configmaps" in text
    assert "not known: events: you may not see events.events.k8s.io" in text
    assert app_json(detail)["missing"]["assignment"] == "you may not see configmaps"
    assert lines(trees).splitlines()[1:] == [
        "ads  True   Running  1          2         1      4     4/4    -  -           2 h 0 min",
        "not known: lag and last batch: you may not see configmaps",
    ]


def test_thousands_of_tasks_fit_a_screen_and_can_be_listed() -> None:
    detail = read_app(Trees(app(), maps=(report(), handed(1_000, 10_000))), "apps", "ads")
    text = page(detail)
    assert len(text.splitlines()) < 50
    assert max(map(len, text.splitlines())) < 150
    assert "and 6 more" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("claim-")][:11][-1] == "claim-10"
    assert "... and 980 more processors with 9,800 tasks (--tasks shows all)" in text
    whole = page(detail, all_tasks=True)
    assert all(f"partition-{at}" in whole for at in range(10_000))
    assert sum(len(one["tasks"]) for one in app_json(detail)["assignment"]["processors"]) == 10_000


def test_a_name_that_no_pod_can_have_is_not_shown() -> None:
    text = VersionedAssignment(1, 2, {"exec": f"claim-{'9' * 5_000}"}, Assignment({"exec": ()})).text()
    maps = (report(), config_map(assignment_name("ads", "1"), "assignment.json", text))
    assert "holds a name of more than 253 characters" in page(read_app(Trees(app(), maps=maps), "apps", "ads"))


def test_only_the_latest_events_are_shown_the_newest_last() -> None:
    events = tuple(event(1000 * at, "Starting", f"event {at}") for at in range(1, 40))
    detail = read_app(Trees(app(), events=events), "apps", "ads")
    assert [line.split()[-1] for line in page(detail).splitlines()[-5:]] == ["5", "4", "3", "2", "1"]


def test_a_line_for_each_app() -> None:
    bad = app("bad", verdicts={"Ready": ("False", "DriverFailed", "no broker")})
    trees = Trees(bad, app(), app("new", status=None, conditions=[], runId=None, attempt=None), maps=(report(),))
    assert (
        lines(trees)
        == """\
APP  READY  REASON        RUN  ATTEMPT  RESTARTS  TASKS  PLACED  LAG  LAST BATCH  AGE
ads  True   Running       1          2         1      4     4/4   12  2.5 s ago   2 h 0 min
bad  False  DriverFailed  1          2         1      4     4/4    -  -           2 h 0 min
new  False  -             -          -         1      4     4/4    -  -           2 h 0 min
not known: lag and last batch: its driver has not reported yet"""
    )
    assert lines(trees, None).startswith("NAMESPACE  APP")
    assert lines(Trees()) == "no StreamApps in namespace apps"
    assert lines(Trees(), None) == "no StreamApps"


def test_a_wrong_name_is_refused_with_the_nearest_visible_app() -> None:
    trees = Trees(app("ad-clicks"))
    with pytest.raises(
        AppUnknownError, match="there is no StreamApp ad-click in namespace apps; did you mean ad-clicks"
    ):
        read_app(trees, "apps", "ad-click")
    with pytest.raises(AppUnknownError, match=r"no StreamApp \.\./\.\. in namespace apps"):
        read_app(trees, "apps", "../..")


texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["\x1b[2J", "a\r\nb", "\u202e", "\x9b5m"])


@given(texts, texts, texts)
def test_of_texts_of_others_only_lines_of_letters_are_shown(a: str, b: str, c: str) -> None:
    verdicts = {"Ready": ("False", "NoProgress", a), "PlanValid": ("False", "NoProgress", b)}
    text = (
        VersionedAssignment(1, 2, {a: b, f"{b}x": c}, Assignment({a: (c,), f"{b}x": ()})).text()
        if a != f"{b}x"
        else "{}"
    )
    maps = (report(heldBack=c), config_map(assignment_name("ads", "1"), "assignment.json", text))
    detail = read_app(Trees(app(verdicts=verdicts), maps=maps, events=(event(1, a, b),)), "apps", "ads")
    assert all(line.isprintable() for line in page(detail).split("\n"))
    tree = json.dumps(app_json(detail), ensure_ascii=False)
    assert tree.isprintable()


def test_an_empty_list_and_a_list_can_be_compared() -> None:
    assert read_apps(Trees(), None) == AppList(())
    assert read_apps(Trees(app()), "apps") == read_apps(Trees(app()), "apps")
    assert isinstance(read_apps(Trees(app()), "apps").apps[0][1], Missing)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ads", "-A"), "give its namespace with -n"),
        (("ads", "-A", "-n", "apps"), "not allowed with"),
        (("--kubeconfig", "none"), "there is no kubeconfig at none"),
        (("-n", "a/../b", "--kubeconfig", "kubeconfig"), "a/../b is no namespace"),
    ],
)
def test_what_cannot_be_asked_is_said(holdfast: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    Path("kubeconfig").write_text("{current-context: a, contexts: [{name: a, context: {}}]}")
    ran = holdfast("status", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_without_the_kubernetes_package_it_says_what_to_install(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast_cli.cluster.target.find_spec", lambda _: None)
    ran = holdfast("status")
    assert (ran.code, ran.err) == (
        2,
        "holdfast: holdfast status needs kubernetes: in a checkout of Holdfast, pip install '.[cluster]'\n",
    )
