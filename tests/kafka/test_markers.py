"""Notes of the marker topic, without a broker."""

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import ListOffsetsResultInfo  # type: ignore[attr-defined]  # it exports it unsaid

from holdfast.errors import UserActionError, WorldChangeError
from holdfast_runtime.streams.kafka.client import questions
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.client.topic_limits import event_times, kafka_times
from holdfast_runtime.streams.kafka.write.marker_notes import (
    ATTEMPTS,
    BEFORE,
    Notes,
    attempt_note,
    before_note,
    owner_note,
    partition_of,
    slot_note,
    slot_partition,
    taken_back,
)
from holdfast_runtime.streams.kafka.write.marker_topic import MarkerTopic
from holdfast_runtime.streams.markers import AttemptId
from holdfast_runtime.streams.records import NO_TIME, Marker
from tests.error_codes import has_code
from tests.kafka.admins import BLANK, Admins

ONE, TWO, OTHER = AttemptId("app", "1", 1), AttemptId("app", "1", 2), AttemptId("app", "2", 1)


def turns(who: AttemptId, **batches: int) -> dict[str, Marker]:
    return {task: Marker(who.owner, task, batch, who.number, "life", "digest") for task, batch in batches.items()}


def test_the_newest_attempt_is_the_highest_of_the_youngest_run() -> None:
    assert Notes("app").newest is None
    assert Notes("app").add([attempt_note(TWO, 3), attempt_note(ONE, 3)]).newest == TWO
    assert Notes("app").add([attempt_note(TWO, 3), attempt_note(OTHER, 1)]).newest == OTHER
    key, _ = attempt_note(ONE, 3)
    assert Notes("app").add([attempt_note(ONE, 3), attempt_note(TWO, 3), taken_back(key)]).slots == {TWO: 3}


def test_the_name_is_whose_note_is_first_and_stands() -> None:
    first, second = owner_note("namespace a"), owner_note("holdfast run")
    assert Notes("app").add([attempt_note(ONE, 3)]).owner is None
    assert Notes("app").add([first, attempt_note(ONE, 3), second, first]).owner == "namespace a"
    assert Notes("app").add([first, second, taken_back(first[0])]).owner == "holdfast run"
    assert Notes("app").add([first, second, attempt_note(ONE, 3)]).newest == ONE


def test_a_run_has_written_the_highest_turn_of_each_task() -> None:
    notes = Notes("app").add(
        [
            slot_note(ONE, 0, turns(ONE, a=3, b=1)),
            before_note(TWO, turns(ONE, b=2)),
            slot_note(ONE, 1, turns(ONE, a=2)),
            slot_note(OTHER, 0, turns(OTHER, a=9)),
        ]
    )
    assert notes.of_run("1") == turns(ONE, a=3, b=2)
    assert notes.of_run("3") == {}


@pytest.mark.parametrize(
    ("note", "place"),
    [
        (attempt_note(ONE, 1), (ATTEMPTS, True)),
        (before_note(ONE, {}), (BEFORE, False)),
        (slot_note(ONE, 4, {}), (slot_partition(4), False)),
    ],
)
def test_a_note_says_where_it_is(note: tuple[bytes, bytes], place: tuple[int, bool]) -> None:
    assert partition_of(note[0]) == place


@pytest.mark.parametrize(
    "note",
    [
        (b"", b""),
        (b"[1]", b"{}"),
        (b'["attempt","1",1]', b"{}"),
        (b'["slot","1",1,0]', b""),
        (b'["slot","1",1,0]', b'{"turns":{"partition-0":7}}'),
        (b'["before","1",1]', b'{"turns":{"partition-0":[7,1]}}'),
    ],
)
def test_a_note_of_somebody_else_is_not_taken_for_ours(note: tuple[bytes, bytes]) -> None:
    with pytest.raises(UserActionError, match="did not write", check=has_code("MarkerUnreadableError")):
        Notes("app").add([note])


def test_names_of_runs_and_apps_never_meet() -> None:
    names = {AttemptId(app, run, 1).transactional_id(0) for app in ("a", "a-b") for run in ("1", "b/1")}
    assert len(names) == 4


def test_event_times_unknown_to_kafka_come_back_unchanged() -> None:
    import pyarrow as pa  # noqa: PLC0415

    times = pa.array([NO_TIME, -5_000_000_000_000, -1, 0, 1, 1_700_000_000_000], pa.int64())
    assert (kafka_times(times).to_numpy() > 0).all()
    assert event_times(kafka_times(times)).equals(times)
    assert kafka_times(times.slice(4)).equals(times.slice(4))


def test_a_topic_with_an_unknown_leader_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def topic(*codes: int) -> MarkerTopic:
        monkeypatch.setattr(questions, "AdminClient", Admins(*codes, ListOffsetsResultInfo(0, -1, -1)))
        return MarkerTopic(KafkaSettings("events", "a:1", {}), "app.holdfast")

    codes = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_LEADER_EPOCH
    assert topic(*codes).read(0) == []
    with pytest.raises(WorldChangeError, match=r"app\.holdfast can't be read"):
        topic(KafkaError.TOPIC_AUTHORIZATION_FAILED).read(0)


def test_a_topic_without_its_leader_is_not_taken_for_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "AdminClient", Admins(BLANK))
    with pytest.raises(KafkaBusyError, match=r"nothing about app\.holdfast/0 came from a:1"):
        MarkerTopic(KafkaSettings("events", "a:1", {}), "app.holdfast", patience=0.1).read(0)
