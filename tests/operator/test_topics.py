import re
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import confluent_kafka
import pytest

from holdfast.errors import WorldChangeError
from holdfast.kafka_settings import unacceptable_for_others
from holdfast.spec.parse import parse_app
from holdfast_operator.cache import Key
from holdfast_operator.facts import Unknown
from holdfast_operator.topics import Topics
from tests.operator.apps import TREE, tree

A, B = Key("n", "a"), Key("n", "b")
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


def test_nothing_is_known_before_somebody_was_asked() -> None:
    brokers, changed = Brokers(), list[Key]()
    topics = Topics(brokers.ask, changed.append)
    assert isinstance(topics.counts(A, APP, {}), Unknown)
    assert brokers.asked == []
    topics.refresh()
    assert changed == [A]
    assert topics.counts(A, APP, {}) == {"clicks": 4, "out": 4}


def test_one_question_for_all_apps_of_a_system_and_news_for_all_of_them() -> None:
    brokers, changed = Brokers(), list[Key]()
    topics = Topics(brokers.ask, changed.append)
    for key in (A, B):
        topics.counts(key, APP, {})
    topics.refresh()
    assert brokers.asked == [("kafka:9092", {}, frozenset({"clicks", "out"}))]
    changed.clear()
    topics.refresh()
    assert changed == []
    brokers.counts["clicks"] = 8
    topics.refresh()
    assert sorted(changed) == [A, B]
    assert topics.counts(B, APP, {}) == {"clicks": 8, "out": 4}


def test_a_topic_that_is_not_there_is_told_apart_from_one_nobody_was_asked_about() -> None:
    brokers, changed = Brokers(), list[Key]()
    del brokers.counts["out"]
    topics = Topics(brokers.ask, changed.append)
    topics.counts(A, APP, {})
    topics.refresh()
    assert topics.counts(A, APP, {}) == {"clicks": 4, "out": None}


def test_brokers_that_do_not_answer_are_unknown_and_come_back() -> None:
    brokers, changed = Brokers(), list[Key]()
    topics = Topics(brokers.ask, changed.append)
    topics.counts(A, APP, {})
    topics.refresh()
    brokers.there = False
    topics.refresh()
    found = topics.counts(A, APP, {})
    assert isinstance(found, Unknown)
    assert "no broker" in found.why
    brokers.there = True
    topics.refresh()
    assert topics.counts(A, APP, {}) == {"clicks": 4, "out": 4}


def test_the_settings_of_a_secret_count_and_are_never_shown() -> None:
    brokers, changed = Brokers(), list[Key]()
    topics = Topics(brokers.ask, changed.append)
    topics.counts(A, SECRET, {"login": {"sasl.password": "hush"}})
    topics.refresh()
    assert brokers.asked[0][1] == {"sasl.password": "hush"}
    assert "hush" not in repr(topics)


OURS = (
    ("sasl.oauthbearer.assertion.file", "/var/run/secrets/kubernetes.io/serviceaccount/token", "private.key.pem"),
    ("sasl.oauthbearer.assertion.private.key.file", "/key", "assertion.private.key.pem"),
    ("sasl.oauthbearer.assertion.jwt.template.file", "/template", "leave it out"),
    ("sasl.oauthbearer.metadata.authentication.type", "azure_imds", "log in as the operator"),
    ("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd", "https://"),
    ("sasl.kerberos.principal", "x; id", "another sasl.mechanism"),
    ("sasl.kerberos.keytab", "/etc/keytab", "another sasl.mechanism"),
    ("ssl.key.location", "/key", "as ssl.key.pem"),
    ("ssl.certificate.location", "/certificate", "as ssl.certificate.pem"),
    ("ssl.keystore.location", "/store", "ssl.certificate.pem and ssl.key.pem"),
    ("ssl.truststore.location", "/store", "leave it out"),
    ("ssl.crl.location", "/crl", "leave it out"),
    ("ssl.ca.location", "/etc/ssl/../../dev/zero", "as ssl.ca.pem"),
    ("ssl.ca.location", "/dev/zero", "as ssl.ca.pem"),
    ("https.ca.location", "/dev/zero", "as https.ca.pem"),
)


@pytest.mark.parametrize(("key", "value", "cure"), OURS)
@pytest.mark.parametrize("where", ["config", "Secret"])
def test_a_setting_that_names_a_file_or_an_identity_of_the_operator_never_comes_to_a_client(
    key: str, value: str, cure: str, where: str
) -> None:
    brokers = Brokers()
    topics = Topics(brokers.ask, lambda _: None)
    kafka = {
        "bootstrapServers": "evil:9092",
        "secretName": "login",
        "config": {key: value} if where == "config" else {},
    }
    app = parse_app(tree(systems=[{"name": "events", "kafka": kafka}]))
    found = topics.counts(A, app, {"login": {key: value} if where == "Secret" else {}})
    topics.refresh()
    assert brokers.asked == []
    assert isinstance(found, Unknown)
    assert f'events can\'t be used by the operator: "{key}"' in found.why
    assert cure in found.why
    assert value not in found.why


def test_logins_of_the_app_itself_and_the_certificates_of_the_system_are_used() -> None:
    login = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.token.endpoint.url": "https://login/token",
        "ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt",
        "ssl.key.pem": "key",
    }
    brokers = Brokers()
    topics = Topics(brokers.ask, lambda _: None)
    topics.counts(A, SECRET, {"login": login})
    topics.refresh()
    assert brokers.asked[0][1] == login


def test_every_setting_of_the_client_that_names_a_file_is_refused() -> None:
    """As far as its name says so: all names are in the library itself."""
    (library,) = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs").glob("librdkafka-*")
    names = {name.decode() for name in re.findall(rb"\0((?:ssl|sasl|https)\.[a-z0-9.]+)(?=\0)", library.read_bytes())}
    files = {name for name in names if re.search(r"location|file|path|keytab|kerberos|metadata[.]auth", name)}
    assert {"ssl.key.location", "sasl.oauthbearer.assertion.file", "sasl.kerberos.keytab"} <= files
    assert {name for name in files if unacceptable_for_others({name: "/x"}) is None} == set()


def test_who_does_not_ask_any_more_is_forgotten() -> None:
    brokers, changed = Brokers(), list[Key]()
    topics = Topics(brokers.ask, changed.append, forget_after=-1)
    topics.counts(A, APP, {})
    topics.refresh()
    assert brokers.asked == []


def test_what_nobody_asked_before_is_asked_at_once_and_alone() -> None:
    brokers, changed, wanted = Brokers(), list[Key](), list[str]()
    topics = Topics(brokers.ask, changed.append, lambda: wanted.append("now"))
    brokers.counts["views"] = 2
    found = topics.counts(A, APP, {})
    assert isinstance(found, Unknown)
    assert not found.asked
    topics.refresh(everything=False)
    topics.counts(A, APP, {})
    assert wanted == ["now"]
    views = [{"name": "views", "system": "events", "key": ["k"], "schema": "k STRING"}, TREE["spec"]["streams"][1]]
    steps = [{"name": "written", "from": ["views"], "to": "out"}]
    topics.counts(B, parse_app(tree(streams=views, steps=steps)), {})
    assert wanted == ["now", "now"]
    topics.refresh(everything=False)
    assert [topics for _, _, topics in brokers.asked] == [frozenset({"clicks", "out"}), frozenset({"views"})]
    assert topics.counts(A, APP, {}) == {"clicks": 4, "out": 4}


def test_a_system_that_does_not_answer_keeps_no_other_waiting() -> None:
    answered, changed = threading.Event(), list[Key]()

    def ask(
        _system: str, bootstrap: str, _config: Mapping[str, str], topics: Collection[str]
    ) -> Mapping[str, int | None]:
        if bootstrap == "gone:9092":
            assert answered.wait(20), "the other system was not asked meanwhile"
            message = "no broker"
            raise WorldChangeError(message)
        answered.set()
        return dict.fromkeys(topics, 4)

    gone = parse_app(tree(systems=[{"name": "events", "kafka": {"bootstrapServers": "gone:9092"}}]))
    topics = Topics(ask, changed.append)
    topics.counts(A, gone, {})
    topics.counts(B, APP, {})
    topics.refresh()
    assert sorted(changed) == [A, B]
    assert isinstance(topics.counts(A, gone, {}), Unknown)
    assert topics.counts(B, APP, {}) == {"clicks": 4, "out": 4}
