import asyncio
import threading
from collections.abc import Collection, Mapping

import pytest

from holdfast.errors import WorldChangeError
from holdfast.spec.parse import parse_app
from holdfast_operator.brokers.partition_counts import BrokerUnreachableError
from holdfast_operator.brokers.topic_counts import TopicCounts
from holdfast_operator.decide.facts import AppKey, Unknown
from tests.operator.apps import TREE, tree
from tests.waiting import patience

A, B = AppKey("n", "a"), AppKey("n", "b")
APP = parse_app(tree())
SECRET = parse_app(
    tree(systems=[{"name": "events", "kafka": {"bootstrapServers": "kafka:9092", "secretName": "login"}}])
)


class Brokers:
    """What brokers would answer, and what they were asked."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {"clicks": 4, "out": 4}
        self.there = True
        self.asked: list[tuple[str, Mapping[str, str], frozenset[str]]] = []

    def ask(
        self, system: str, bootstrap: str, config: Mapping[str, str], topics: Collection[str]
    ) -> Mapping[str, int | None]:
        self.asked.append((bootstrap, dict(config), frozenset(topics)))
        if not self.there:
            message = f"no broker of {system}"
            raise WorldChangeError(message)
        return {topic: self.counts.get(topic) for topic in topics}


def refresh(topics: TopicCounts, *, everything: bool = True) -> None:
    asyncio.run(topics.refresh(everything=everything))


def test_nothing_is_known_before_somebody_was_asked() -> None:
    brokers, changed = Brokers(), list[AppKey]()
    topics = TopicCounts(brokers.ask, changed.append)
    assert isinstance(topics.counts(A, APP, {}), Unknown)
    assert brokers.asked == []
    refresh(topics)
    assert changed == [A]
    assert topics.counts(A, APP, {}) == {"clicks": 4, "out": 4}


def test_apps_of_one_system_share_question_and_news() -> None:
    brokers, changed = Brokers(), list[AppKey]()
    topics = TopicCounts(brokers.ask, changed.append)
    for key in (A, B):
        topics.counts(key, APP, {})
    refresh(topics)
    assert brokers.asked == [("kafka:9092", {}, frozenset({"clicks", "out"}))]
    changed.clear()
    refresh(topics)
    assert changed == []
    brokers.counts["clicks"] = 8
    refresh(topics)
    assert sorted(changed) == [A, B]
    assert topics.counts(B, APP, {}) == {"clicks": 8, "out": 4}


def test_a_missing_topic_differs_from_an_unasked_one() -> None:
    brokers, changed = Brokers(), list[AppKey]()
    del brokers.counts["out"]
    topics = TopicCounts(brokers.ask, changed.append)
    topics.counts(A, APP, {})
    refresh(topics)
    assert topics.counts(A, APP, {}) == {"clicks": 4, "out": None}


def test_brokers_that_do_not_answer_are_unknown_and_come_back() -> None:
    brokers, changed = Brokers(), list[AppKey]()
    topics = TopicCounts(brokers.ask, changed.append)
    topics.counts(A, APP, {})
    refresh(topics)
    brokers.there = False
    refresh(topics)
    answer = topics.counts(A, APP, {})
    assert isinstance(answer, Unknown)
    assert "no broker" in answer.why
    brokers.there = True
    refresh(topics)
    assert topics.counts(A, APP, {}) == {"clicks": 4, "out": 4}


def test_the_settings_of_a_secret_count_and_are_never_shown() -> None:
    brokers, changed = Brokers(), list[AppKey]()
    topics = TopicCounts(brokers.ask, changed.append)
    topics.counts(A, SECRET, {"login": {"sasl.password": "hush"}})
    refresh(topics)
    assert brokers.asked[0][1] == {"sasl.password": "hush"}
    assert "hush" not in repr(topics)


REFUSED = (
    ("sasl.oauthbearer.assertion.file", "/var/run/secrets/kubernetes.io/serviceaccount/token", "use SCRAM"),
    ("sasl.oauthbearer.metadata.authentication.type", "azure_imds", "use SCRAM"),
    ("sasl.oauthbearer.token.endpoint.url", "http://169.254.169.254/", "use SCRAM"),
    ("sasl.kerberos.keytab", "/etc/keytab", "use SCRAM"),
    ("ssl.key.location", "/key", "as ssl.key.pem"),
    ("ssl.ca.location", "/etc/ssl/../../dev/zero", "as ssl.ca.pem"),
    ("ssl.providers", "/mine", "load a library"),
    ("plugin.library.paths", "/mine", "load a library"),
    ("sasl.pasword", "hush", "did you mean sasl.password?"),
)


@pytest.mark.parametrize(("key", "value", "cure"), REFUSED)
@pytest.mark.parametrize("source", ["config", "Secret"])
def test_a_setting_not_for_asking_is_refused_by_name(key: str, value: str, cure: str, source: str) -> None:
    brokers = Brokers()
    topics = TopicCounts(brokers.ask, lambda _: None)
    kafka = {
        "bootstrapServers": "evil:9092",
        "secretName": "login",
        "config": {key: value} if source == "config" else {},
    }
    app = parse_app(tree(systems=[{"name": "events", "kafka": kafka}]))
    answer = topics.counts(A, app, {"login": {key: value} if source == "Secret" else {}})
    refresh(topics)
    assert brokers.asked == []
    assert isinstance(answer, Unknown)
    assert f'events can\'t be used by the operator: "{key}"' in answer.why
    assert cure in answer.why
    assert value not in answer.why


def test_only_the_apps_login_is_used_for_asking() -> None:
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "app",
        "sasl.password": "hush",
    }
    rest = {"compression.type": "zstd", "group.id": "orders", "ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt"}
    brokers = Brokers()
    topics = TopicCounts(brokers.ask, lambda _: None)
    topics.counts(A, SECRET, {"login": {**login, **rest}})
    refresh(topics)
    assert brokers.asked[0][1] == login


def test_what_was_tried_is_logged_once_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    def ask(*_: object) -> Mapping[str, int | None]:
        message = "no broker gave an answer."
        raise BrokerUnreachableError(message, ["10.0.0.7:22: Connection refused"])

    topics = TopicCounts(ask, lambda _: None)
    for _ in range(3):
        answer = topics.counts(A, APP, {})
        refresh(topics)
    assert answer == Unknown("no broker gave an answer.")
    assert [one.message for one in caplog.records] == [
        "no broker gave an answer. Tried: 10.0.0.7:22: Connection refused."
    ]


def test_who_does_not_ask_any_more_is_forgotten() -> None:
    brokers, changed = Brokers(), list[AppKey]()
    topics = TopicCounts(brokers.ask, changed.append, forget_after=-1)
    topics.counts(A, APP, {})
    refresh(topics)
    assert brokers.asked == []


def test_what_nobody_asked_before_is_asked_at_once_and_alone() -> None:
    brokers, changed = Brokers(), list[AppKey]()
    topics = TopicCounts(brokers.ask, changed.append)
    brokers.counts["views"] = 2
    answer = topics.counts(A, APP, {})
    assert isinstance(answer, Unknown)
    assert not answer.asked
    assert topics.news.is_set()
    topics.news.clear()
    refresh(topics, everything=False)
    topics.counts(A, APP, {})
    assert not topics.news.is_set()
    views = [{"name": "views", "system": "events", "key": ["k"], "schema": "k STRING"}, TREE["spec"]["streams"][1]]
    steps = [{"name": "written", "from": ["views"], "to": "out"}]
    topics.counts(B, parse_app(tree(streams=views, steps=steps)), {})
    assert topics.news.is_set()
    refresh(topics, everything=False)
    assert [topics for _, _, topics in brokers.asked] == [frozenset({"clicks", "out"}), frozenset({"views"})]
    assert topics.counts(A, APP, {}) == {"clicks": 4, "out": 4}


def test_a_system_that_does_not_answer_keeps_no_other_waiting() -> None:
    answered, changed = threading.Event(), list[AppKey]()

    def ask(
        _system: str, bootstrap: str, _config: Mapping[str, str], topics: Collection[str]
    ) -> Mapping[str, int | None]:
        if bootstrap == "gone:9092":
            assert answered.wait(patience(20)), "the other system was not asked meanwhile"
            message = "no broker"
            raise WorldChangeError(message)
        answered.set()
        return dict.fromkeys(topics, 4)

    silent_app = parse_app(tree(systems=[{"name": "events", "kafka": {"bootstrapServers": "gone:9092"}}]))
    topics = TopicCounts(ask, changed.append)
    topics.counts(A, silent_app, {})
    topics.counts(B, APP, {})
    refresh(topics)
    assert sorted(changed) == [A, B]
    assert isinstance(topics.counts(A, silent_app, {}), Unknown)
    assert topics.counts(B, APP, {}) == {"clicks": 4, "out": 4}


def test_a_namespace_of_dead_brokers_costs_others_one_small_round() -> None:
    bootstraps, changed = list[str](), list[AppKey]()
    lock = threading.Lock()

    def ask(
        _system: str, bootstrap: str, _config: Mapping[str, str], topics: Collection[str]
    ) -> Mapping[str, int | None]:
        with lock:
            bootstraps.append(bootstrap)
        if bootstrap.startswith("gone"):
            message = "no broker"
            raise WorldChangeError(message)
        return dict.fromkeys(topics, 4)

    def rounds(count: int, *, everything: bool) -> list[int]:
        sizes = []
        for _ in range(count):
            bootstraps.clear()
            refresh(topics, everything=everything)
            sizes.append(len([one for one in bootstraps if one.startswith("gone")]))
        return sizes

    topics = TopicCounts(ask, changed.append)
    for number in range(40):
        kafka = {"bootstrapServers": f"gone-{number}:9092"}
        topics.counts(AppKey("bad", f"a{number}"), parse_app(tree(systems=[{"name": "events", "kafka": kafka}])), {})
    topics.counts(B, APP, {})
    topics.news.clear()
    refresh(topics, everything=False)
    assert topics.counts(B, APP, {}) == {"clicks": 4, "out": 4}
    assert len(bootstraps) == 17
    assert topics.news.is_set()  # for those that nobody has asked yet
    assert rounds(3, everything=False) == [16, 8, 0]
    # Those that are silent are asked again, in turns, beside all that answer.
    all_asked = set()
    for _ in range(10):
        assert rounds(1, everything=True) == [4]
        assert "kafka:9092" in bootstraps
        all_asked |= set(bootstraps)
    assert len(all_asked) == 41
