"""What the page is answered, and how often the cluster is asked for it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from holdfast.api_answers import NotAllowedError
from holdfast.errors import UserActionError
from holdfast.protocol.names import attempt_name
from holdfast_cli.cluster.app import APPS, CONFIG_MAPS, PODS, ObjectKind
from holdfast_cli.ui.looks import ClusterLooks, PageAnswer
from tests.cli.status_objects import report
from tests.ui.clusters import STALLED, FakeCluster, FakeLog, Tree, cluster_of, pod, pods_of_attempt, whole_app

DRIVER = attempt_name("ads", "1", 2)


class Clock:
    """Stands still until it is moved; each look takes `cost`."""

    def __init__(self) -> None:
        self.now, self.cost = 0.0, 0.0

    def __call__(self) -> float:
        return self.now


class SlowCluster(FakeCluster):
    """Takes time to answer."""

    clock: Clock

    def find(self, *arguments: Any) -> list[Tree]:
        self.clock.now += self.clock.cost
        return super().find(*arguments)


def in_namespace(name: str, app: Tree) -> tuple[ObjectKind, Tree]:
    return APPS, {**app, "metadata": {**app["metadata"], "namespace": name}}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(clock: Clock) -> SlowCluster:
    slow = SlowCluster((APPS, whole_app()), (CONFIG_MAPS, report()))
    slow.clock = clock
    return slow


@pytest.fixture
def looks(cluster: FakeCluster, clock: Clock) -> ClusterLooks:
    return ClusterLooks(lambda: cluster, "test", ("apps",), clock)


def tree_of(answer: PageAnswer) -> Tree:
    return dict(json.loads(answer.body))


def test_an_answer_says_which_cluster_and_namespace_it_is_of(looks: ClusterLooks) -> None:
    answer = looks.apps()
    assert answer.status == 200
    tree = tree_of(answer)
    assert (tree["where"], tree["namespaces"], len(tree["apps"])) == ("test", ["apps"], 1)


def test_the_tag_changes_only_with_what_is_answered(looks: ClusterLooks, cluster: SlowCluster, clock: Clock) -> None:
    first = looks.apps()
    clock.now += 10
    assert looks.apps().tag == first.tag
    cluster.add(APPS, whole_app("more"))
    clock.now += 10
    assert looks.apps().tag != first.tag


def test_several_tabs_get_one_look(looks: ClusterLooks, cluster: SlowCluster, clock: Clock) -> None:
    looks.apps()
    calls = cluster.calls
    clock.now += 1
    looks.apps()
    assert cluster.calls == calls
    clock.now += 1
    looks.apps()
    assert cluster.calls == 2 * calls


def test_slow_looks_are_made_less_often(looks: ClusterLooks, cluster: SlowCluster, clock: Clock) -> None:
    clock.cost = 2.0
    looks.apps()
    calls = cluster.calls
    clock.now += 19
    looks.apps()
    assert cluster.calls == calls
    clock.now += 2
    looks.apps()
    assert cluster.calls == 2 * calls


def test_trouble_is_an_answer_and_ends(looks: ClusterLooks, cluster: SlowCluster, clock: Clock) -> None:
    cluster.refused[APPS] = NotAllowedError("no; ask for the right to list apps", code="RightMissingError")
    answer = looks.apps()
    assert answer.status == 503
    assert tree_of(answer)["error"] == "RightMissingError"
    assert tree_of(answer)["message"] == "no; ask for the right to list apps"
    cluster.refused.clear()
    clock.now += 10
    assert looks.apps().status == 200


def test_several_namespaces_are_one_list_problems_first(clock: Clock) -> None:
    cluster = FakeCluster(
        *(in_namespace(name, app) for name, app in (("a", whole_app()), ("b", whole_app("b", STALLED))))
    )
    cluster.add(APPS, in_namespace("c", whole_app())[1])
    tree = tree_of(ClusterLooks(lambda: cluster, "test", ("a", "b"), clock).apps())
    assert [(row["namespace"], row["standing"]) for row in tree["apps"]] == [("b", "stalled"), ("a", "ready")]
    assert (tree["namespaces"], tree["refusals"]) == (["a", "b"], [])


def test_a_namespace_that_may_not_be_seen_hides_no_other(clock: Clock) -> None:
    class Partly(FakeCluster):
        def find(self, kind: ObjectKind, namespace: str | None, query: Mapping[str, str]) -> list[Tree]:
            if namespace != "a":
                message = f"you may not list apps in {namespace}"
                raise NotAllowedError(message)
            return super().find(kind, namespace, query)

    cluster = Partly(in_namespace("a", whole_app()))
    tree = tree_of(ClusterLooks(lambda: cluster, "test", ("a", "b"), clock).apps())
    assert ([row["namespace"] for row in tree["apps"]], tree["refusals"]) == (["a"], ["you may not list apps in b"])
    answer = ClusterLooks(lambda: cluster, "test", ("b", "c"), clock).apps()
    assert (answer.status, tree_of(answer)["message"]) == (503, "you may not list apps in b")


def test_an_unknown_app_is_not_found(looks: ClusterLooks) -> None:
    answer = looks.app("apps", "adz")
    assert answer.status == 404
    assert "did you mean ads?" in tree_of(answer)["message"]


def test_expired_credentials_are_read_again(cluster: SlowCluster, clock: Clock) -> None:
    connections: list[int] = []

    def connect() -> FakeCluster:
        connections.append(1)
        return cluster

    looks = ClusterLooks(connect, "test", ("apps",), clock)
    cluster.trouble = NotAllowedError("log in again", code="CredentialsError")
    looks.apps()
    cluster.trouble = None
    clock.now += 10
    assert looks.apps().status == 200
    clock.now += 10
    looks.apps()
    assert len(connections) == 2


def test_no_credentials_at_all_are_said_until_there_are_some(cluster: SlowCluster, clock: Clock) -> None:
    failures = iter([UserActionError("context test gives no credentials", code="CredentialsError")])

    def connect() -> FakeCluster:
        for error in failures:
            raise error
        return cluster

    looks = ClusterLooks(connect, "test", ("apps",), clock)
    assert tree_of(looks.apps())["message"] == "context test gives no credentials"
    clock.now += 10
    assert looks.apps().status == 200


def test_what_may_not_be_seen_of_an_app_is_missing(looks: ClusterLooks, cluster: SlowCluster) -> None:
    cluster.refused[PODS] = NotAllowedError("you may not list pods")
    tree = tree_of(looks.app("apps", "ads"))
    assert tree["missing"]["pods"] == "you may not list pods"
    assert tree["report"]["batch"] == 1041


def test_a_plan_is_drawn_again_only_for_another_spec(
    looks: ClusterLooks, clock: Clock, cluster: SlowCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []

    def draw(app_tree: Tree, _: object) -> Tree:
        drawn.append(app_tree["metadata"]["generation"])
        return {"drawing": None, "why": None}

    monkeypatch.setattr("holdfast_cli.ui.looks.plan_view", draw)
    for generation in (3, 3, 4):
        cluster.objects[0][1]["metadata"]["generation"] = generation
        looks.plan("apps", "ads")
        clock.now += 10
    assert drawn == [3, 4]


def test_the_end_of_a_log_is_shown(looks: ClusterLooks, cluster: SlowCluster) -> None:
    cluster.add(PODS, *pods_of_attempt(1))
    cluster.logs[DRIVER] = tuple(f"line {at}".encode() for at in range(600))
    tree = tree_of(looks.log("apps", "ads", DRIVER))
    assert (len(tree["lines"]), tree["lines"][-1], tree["cut"], tree["why"]) == (500, "line 599", True, None)


def test_long_lines_are_cut_and_all_of_it_is_bounded(looks: ClusterLooks, cluster: SlowCluster) -> None:
    cluster.add(PODS, *pods_of_attempt(1))
    cluster.logs[DRIVER] = (b"x" * 1_000_000,) * 5 + ("\x1b[31mred\u202e\xff".encode(),)
    tree = tree_of(looks.log("apps", "ads", DRIVER))
    assert tree["lines"][-1] == " [31mred ÿ"
    assert max(map(len, tree["lines"])) == 4_001
    cluster.logs[DRIVER] = (b"y" * 4_000,) * 500
    assert sum(map(len, tree_of(looks.log("apps", "ads", DRIVER))["lines"])) <= 1 << 18


def test_a_log_without_end_is_not_read_to_its_end(cluster: SlowCluster, clock: Clock) -> None:
    read: list[int] = []

    class Endless(FakeLog):
        def __iter__(self) -> Iterator[bytes]:
            while True:
                read.append(1)
                yield b"z" * (1 << 20)

    class Flooded(SlowCluster):
        def log(self, _: str, __: str, ___: Mapping[str, str]) -> FakeLog:
            return Endless(())

    flooded = Flooded(*cluster.objects)
    flooded.clock = clock
    flooded.add(PODS, *pods_of_attempt(0))
    ClusterLooks(lambda: flooded, "test", ("apps",), clock).log("apps", "ads", DRIVER)
    assert len(read) == 9


def test_a_pod_of_another_app_has_no_log_here(looks: ClusterLooks, cluster: SlowCluster) -> None:
    cluster.add(PODS, *pods_of_attempt(0, "other"))
    cluster.logs[attempt_name("other", "1", 2)] = (b"secret",)
    answer = looks.log("apps", "ads", attempt_name("other", "1", 2))
    assert answer.status == 503
    assert tree_of(answer)["error"] == "NoLogError"


def test_a_pod_that_has_not_begun_says_so(looks: ClusterLooks, cluster: SlowCluster) -> None:
    cluster.add(PODS, pod(DRIVER, "driver", phase="Pending"))
    assert tree_of(looks.log("apps", "ads", DRIVER))["why"] == f"{DRIVER} has no log yet: it is Pending"


def test_many_apps_and_tasks_are_answered(clock: Clock) -> None:
    looks = ClusterLooks(lambda: cluster_of(50, 300, 3), "test", (), clock)
    tree = tree_of(looks.apps())
    assert (len(tree["apps"]), tree["namespaces"]) == (50, [])
    processors = tree_of(looks.app("apps", "ads"))["assignment"]["processors"]
    assert sum(len(processor["tasks"]) for processor in processors) == 300
