from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.bookkeeping import Bookkeeping, ControlInputs
from holdfast.control.messages import EARLIEST, EndOfStreamMessage, MessageNumber, WatermarkMessage
from holdfast.control.producers import Delivery, Producers
from holdfast.control.sending import ControlSender, Emission, Relay, SenderProgress, aggregating_partition, relays
from holdfast.tasks.partitions import StreamPartition
from tests.control.histories import MID, TASKS, Batch, histories

OWN, OTHER = MID
OWNERS = ControlInputs((OWN,), {"mid": Producers.of(TASKS, idle_after=100)})
READERS = ControlInputs((OTHER,), OWNERS.producers)


def read_by_owner(history: list[Batch]) -> list[Batch]:
    """What of a history comes to the aggregating partition: producers speak there, and nobody else does."""
    return [
        Batch(batch.now, tuple(one for one in batch.deliveries if one.partition == OWN and one.message.task))
        for batch in history
    ]


def delivered(emissions: tuple[Emission, ...]) -> list[Delivery]:
    return [Delivery(StreamPartition("mid", number), message) for numbers, message in emissions for number in numbers]


@given(histories(), st.data())
def test_whoever_reads_behind_a_relay_knows_what_its_owner_knows(history: list[Batch], data: st.DataObject) -> None:
    owner, relay = Bookkeeping.started(OWNERS, 0), Relay.at(OWN)
    reader = Bookkeeping.started(READERS, 0)
    sent: list[EndOfStreamMessage | WatermarkMessage] = []
    for number, batch in enumerate(read_by_owner(history)):
        owner = owner.batch(batch.deliveries, batch.now)
        after, emissions = relay.follow(owner, 2, number)
        # An owner that dies before its state is stored does the batch again, and says the same again.
        assert relay.follow(owner, 2, number) == (after, emissions)
        relay, written = after, delivered(emissions)
        sent += [message for _, message in written]
        replayed = written * data.draw(st.integers(1, 2))
        reader = reader.batch(replayed, batch.now)
        assert reader.watermarks.of(OTHER) == owner.watermarks.of(OWN)
        assert reader.ends.ended("mid") == owner.ends.ended("mid")
    marks = [(message.timestamp, message.idle) for message in sent if isinstance(message, WatermarkMessage)]
    times = [time for time, _ in marks]
    assert times == sorted(times)
    assert all(earlier != later for earlier, later in pairwise(marks)), "each watermark is relayed when it has advanced"
    assert sum(isinstance(message, EndOfStreamMessage) for message in sent) == owner.ends.ended("mid")
    assert all(message.task is None for message in sent)


views = st.builds(SenderProgress, st.none() | st.integers(0, 9), st.booleans(), st.booleans(), st.booleans())


@given(st.lists(st.tuples(views, st.frozensets(st.integers(0, 3)))))
def test_every_written_partition_knows_all_there_is_to_know(steps: list[tuple[SenderProgress, frozenset[int]]]) -> None:
    sender = ControlSender("mid", "a", 3)
    knows: dict[int, tuple[int | None, bool]] = {}
    idle: dict[int, bool] = {}
    stayed = frozenset[int]()
    for batch, (view, partitions) in enumerate(steps):
        sender, emissions = sender.follow(view, partitions, batch)
        for (_, number), message in delivered(emissions):
            assert number in partitions
            mark, ended = knows.get(number, (None, False))
            assert not ended, "nothing follows an end"
            if isinstance(message, EndOfStreamMessage):
                knows[number] = (mark, True)
            else:
                news = message.timestamp != mark or message.idle != idle.get(number) or number not in stayed
                assert news or (view.alive and not view.idle), "nothing is said twice"
                knows[number] = (None if message.timestamp == EARLIEST else message.timestamp, False)
                idle[number] = message.idle
            assert message.at == MessageNumber(batch, int(isinstance(message, EndOfStreamMessage)))
        stayed = partitions
        for number in partitions:
            assert knows.get(number, (None, False)) == (sender.watermark, sender.ended)
            assert idle.get(number, False) == sender.idle or sender.watermark is None


def test_a_watermark_is_said_on_advance_and_repeated_while_alive() -> None:
    sender, first = ControlSender("mid", "a", 3).follow(SenderProgress(5), range(2), 0)
    assert first == (Emission([0, 1], WatermarkMessage(5, MessageNumber(0, 0), "a", 3)),)
    sender, silent = sender.follow(SenderProgress(5), range(2), 1)
    assert silent == ()
    sender, again = sender.follow(SenderProgress(4, alive=True), range(2), 2)
    assert again == (Emission([0, 1], WatermarkMessage(5, MessageNumber(2, 0), "a", 3)),)


def test_idleness_and_its_end_are_said_once_behind_rows() -> None:
    sender, first = ControlSender("mid", "a", 3).follow(SenderProgress(None, idle=True), range(2), 0)
    assert first == (Emission([0, 1], WatermarkMessage(EARLIEST, MessageNumber(0, 0), "a", 3, idle=True)),)
    sender, again = sender.follow(SenderProgress(None, alive=True, idle=True), range(2), 1)
    assert again == ()
    sender, back = sender.follow(SenderProgress(5, alive=True), range(2), 2)
    assert back == (Emission([0, 1], WatermarkMessage(5, MessageNumber(2, 0), "a", 3)),)
    sender, moved = sender.follow(SenderProgress(7, idle=True), range(2), 3)
    assert moved == (Emission([0, 1], WatermarkMessage(7, MessageNumber(3, 0), "a", 3, idle=True)),)
    assert sender.follow(SenderProgress(7), range(2), 4)[1] == (
        Emission([0, 1], WatermarkMessage(7, MessageNumber(4, 0), "a", 3)),
    )


def test_a_partition_that_appears_later_is_told_what_it_missed() -> None:
    sender, _ = ControlSender("mid", "a", 3).follow(SenderProgress(5, ended=True), range(2), 0)
    sender, missed = sender.follow(SenderProgress(5, ended=True), range(4), 7)
    assert missed == (
        Emission([2, 3], WatermarkMessage(5, MessageNumber(7, 0), "a", 3)),
        Emission([2, 3], EndOfStreamMessage("mid", MessageNumber(7, 1), "a", 3)),
    )
    assert sender.follow(SenderProgress(5, ended=True), range(4), 8)[1] == ()


def test_a_relay_looks_at_none_of_its_owners_other_partitions() -> None:
    owner = Bookkeeping.started(ControlInputs(MID, OWNERS.producers), 0)
    relay = Relay.at(OWN)
    ends = [Delivery(OWN, EndOfStreamMessage("mid", MessageNumber(0, 1), task, 3)) for task in TASKS]
    owner = owner.batch(ends, 0)
    assert not owner.ends.ended("mid")
    relay, emissions = relay.follow(owner, 2, 0)
    owner = owner.batch(delivered(emissions), 1)
    assert owner.ends.ended("mid")


@pytest.mark.parametrize(
    ("producers", "partitions", "relayed"), [(64, 64, False), (65, 64, True), (10_000, 1, False), (5_000, 2, True)]
)
def test_many_producers_of_many_partitions_speak_through_a_relay(
    producers: int, partitions: int, relayed: bool
) -> None:
    assert relays(producers, partitions) is relayed


def test_the_aggregating_partition_follows_from_the_name_everywhere() -> None:
    assert aggregating_partition("ads-by-campaign", 16) == StreamPartition("ads-by-campaign", 9)
    assert len({aggregating_partition(f"stream-{number}", 16).partition for number in range(100)}) == 16
