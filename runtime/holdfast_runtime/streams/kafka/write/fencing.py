"""The fencing of earlier attempts: before an attempt writes, no earlier one can, and what was written is known.

    is the app's name ours? -> note this attempt -> take the names of earlier attempts -> read what they wrote
    -> note it, take their notes back

The order matters: a process of an earlier attempt that takes its name later reads the note of this one, and ends; one
that took it before has lost it. Must not plan.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from holdfast.errors import UserActionError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.write.marker_notes import (
    ATTEMPTS,
    BEFORE,
    NoteRecord,
    Notes,
    attempt_note,
    before_note,
    check_newest,
    owner_note,
    partition_of,
    slot_partition,
    taken_back,
)
from holdfast_runtime.streams.kafka.write.marker_topic import MarkerTopic
from holdfast_runtime.streams.kafka.write.producer import TransactionalProducer
from holdfast_runtime.streams.markers import AttemptId, TaskMarkers

_AT_ONCE = 16


def claim_name(app: str, owner: str, markers: MarkerTopic) -> None:
    """Refuse to shut out an app of the same name with another owner: the first one keeps the name."""

    def found() -> str | None:
        return Notes(app).add(markers.read(ATTEMPTS)).owner

    if (first := found()) is None:
        ours = owner_note(owner)
        markers.write([(ATTEMPTS, ours)])
        # If two come at once, both see whose note is first.
        if (first := found()) != owner:
            markers.write([(ATTEMPTS, taken_back(ours[0]))])
    if first != owner:
        message = (
            f"Kafka system {markers.settings.system}: the name {app} belongs to an app of another owner ({first}), and "
            f"this one is of {owner}: each would shut the other out. Give one of them another metadata.name; or, if "
            f"the other has drained and will never run again, delete the topic {markers.topic}"
        )
        raise UserActionError(message, code="NameTakenError")


def begin_attempt(
    who: AttemptId, slots: int, settings: KafkaSettings, markers: MarkerTopic, partitions: int
) -> TaskMarkers:
    """Shut out earlier attempts; return what those of this run wrote. `partitions` is the marker topic's count."""
    markers.write([(ATTEMPTS, attempt_note(who, slots))])
    notes = Notes(who.app).add(markers.read(ATTEMPTS))
    check_newest(who, notes.newest)
    earlier = {attempt: most for attempt, most in notes.slots.items() if attempt != who}
    names = [attempt.transactional_id(slot) for attempt, most in earlier.items() for slot in range(most)]
    _shut_out(settings, names)
    # Slots first: an earlier attempt that runs this again notes what they say before it takes their notes back.
    for partition in range(slot_partition(0), partitions):
        notes.add(markers.read(partition))
    turns = notes.add(markers.read(BEFORE)).of_run(who.run)
    markers.write([(BEFORE, before_note(who, turns))])
    markers.write(_superfluous(notes, who, earlier))
    return turns


def _shut_out(settings: KafkaSettings, names: list[str]) -> None:
    def take(name: str) -> None:
        producer = TransactionalProducer(settings, name)
        try:
            producer.open()
        finally:
            producer.close()

    with ThreadPoolExecutor(_AT_ONCE, "shut-out") as pool:
        list(pool.map(take, names))


def _superfluous(notes: Notes, who: AttemptId, earlier: Mapping[AttemptId, int]) -> list[tuple[int, NoteRecord]]:
    """Return deletions of obsolete notes: of shut-out attempts, and of this run's that a newer note replaces."""
    deletions = []
    for key, whose in notes.keys.items():
        partition, is_attempt = partition_of(key)
        if (is_attempt and whose in earlier) or (not is_attempt and whose.run == who.run and whose != who):
            deletions.append((partition, taken_back(key)))
    return deletions
