"""A changelog in a topic of a real broker: what processes see of each other, and what makes a topic unfit for it."""

import secrets
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.changelog import begin_changelog
from holdfast_runtime.shared_log import RecordsForgottenError
from holdfast_runtime.state.durable.changelog import log_reader, log_storage
from holdfast_runtime.state.durable.changelog.log_reader import LogReader
from holdfast_runtime.state.durable.changelog.log_storage import LogStorage
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.streams.kafka import changelog_topic
from holdfast_runtime.streams.kafka.changelog_topic import ChangelogTopic
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from tests.error_codes import has_code
from tests.kafka.broker import Broker
from tests.kafka.known import changelog_in, create
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.state import worker
from tests.state.test_killed import kill_at_any_moment
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(broker: Broker) -> ChangelogTopic:
    """A topic that is there."""
    changelog = changelog_in(broker.bootstrap, f"app-{secrets.token_hex(4)}")
    changelog.ensure()
    return changelog


def test_what_one_process_writes_the_next_one_finds(topic: ChangelogTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LogStorage(topic, "task")
    assert [storage.write(name, [name.encode()]) for name in ("delta-1", "fence-1", "delta-2")] == [7, 7, 7]
    assert [*storage.delete(["delta-1"])] == ["delta-1"]
    monkeypatch.setattr(log_storage, "reader_of", LogReader)
    assert sorted(storage.names()) == ["delta-2", "fence-1"]
    assert storage.write("delta-2", [b"otherwise"]) is None
    assert storage.read("delta-2") == b"delta-2"
    assert storage.below("more").names() == []


def test_a_tidied_topic_holds_only_what_counts(topic: ChangelogTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "_WASTE", 1000)
    storage = LogStorage(topic, "task")
    storage.write("fence-1", [b"stays"])
    (partition,) = (number for number in range(topic.partitions) if topic.bounds(number)[1])
    for number in range(30):
        storage.write(f"delta-{number}", [b"x" * 200])
        assert [*storage.delete([f"delta-{number - 1}"])]
    oldest, end = topic.bounds(partition)
    assert end - oldest < 30
    with pytest.raises(RecordsForgottenError):
        topic.records(partition, 0, 1)
    monkeypatch.setattr(log_storage, "reader_of", LogReader)
    assert {name: storage.read(name) for name in storage.names()} == {"fence-1": b"stays", "delta-29": b"x" * 200}


def test_a_topic_that_forgets_records_is_refused(broker: Broker) -> None:
    app = f"app-{secrets.token_hex(4)}"
    create(broker, f"{app}.holdfast.changelog", 4, retention_ms="86400000")
    with pytest.raises(UserActionError, check=has_code("TopicDiffersError"), match=r"retention\.ms 86400000, but -1"):
        changelog_in(broker.bootstrap, app).ensure()


def test_a_run_goes_on_only_with_its_own_changelog(broker: Broker, tmp_path: Path) -> None:
    app, run = f"app-{secrets.token_hex(4)}", DirectoryStorage(tmp_path)
    began = changelog_in(broker.bootstrap, app)
    for _ in range(2):
        begin_changelog(run, began)
    for other in (None, changelog_in(broker.bootstrap, app, 8), changelog_in(broker.bootstrap, f"{app}-2")):
        with pytest.raises(
            UserActionError, check=has_code("ChangelogDiffersError"), match=r"the run has its changelog"
        ):
            begin_changelog(run, other)
    with broker.admin() as admin:
        admin.delete_topics([began.topic])[began.topic].result(ANSWER_TIMEOUT)
    with pytest.raises(UserActionError, check=has_code("ChangelogDiffersError"), match=r"not the one in which the run"):
        begin_changelog(run, began)


def test_brokers_that_are_away_are_reported_and_written_to_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog_topic, "_PATIENCE", 5.0)
    monkeypatch.setitem(changelog_topic._SOON, "delivery.timeout.ms", "5000")  # noqa: SLF001 - a test does not wait 20 s
    with Broker() as own_broker:
        topic = changelog_in(own_broker.bootstrap, f"app-{secrets.token_hex(4)}")
        topic.ensure()
        storage = LogStorage(topic, "task")
        storage.write("delta-1", [b"1"])
        own_broker.kill()
        with pytest.raises(KafkaBusyError, match=r"app-\w+\.holdfast\.changelog"):
            storage.write("delta-2", [b"2"])
        own_broker.restart()
        wait_until(lambda: written(storage), 30, "the brokers take records again")
        assert sorted(storage.names()) == ["delta-1", "delta-2"]


def written(storage: LogStorage) -> bool:
    """Whether a record was written, as the loop does: again after an absence."""
    try:
        return storage.write("delta-2", [b"2"]) == 1
    except KafkaBusyError:
        return False


def test_killed_processes_lose_and_double_nothing_with_a_topic(topic: ChangelogTopic, tmp_path: Path) -> None:
    worker.prepare(tmp_path / "app", changelog=topic)
    kill_at_any_moment(tmp_path / "app", 6)
