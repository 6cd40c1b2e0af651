"""A broker that has just started knows of no broker, not even of itself: nobody who asks it may end of that."""

import struct
from dataclasses import dataclass

from confluent_kafka import TopicCollection

from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from holdfast_runtime.streams.kafka.client.questions import BrokerQuestions, QuestionRefusedError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from tests.forked import ForkedProcess
from tests.operator.peers import FakeBroker, listening
from tests.waiting import patience

_METADATA, _UNKNOWN_TOPIC = 3, 3
_BEFORE_CLIENT_ID = 8


@dataclass
class Restarted(FakeBroker):
    """Has started again since it first told of a topic."""

    def answer(self, key: int, version: int, request: bytes) -> bytes:
        """Of the topics that were asked for, which a broker that knows nothing does not know either."""
        made = super().answer(key, version, request)
        (length,) = struct.unpack_from(">h", request, _BEFORE_CLIENT_ID)
        if key == _METADATA and struct.unpack_from(">i", request, _BEFORE_CLIENT_ID + 2 + length)[0] > 0:
            self.brokers, self.topics = [], dict.fromkeys(self.topics, (_UNKNOWN_TOPIC, 0))
        elif key == _METADATA and not self.brokers:
            made = FakeBroker([], {}).answer(key, version, request)
        return made


def ask_twice(address: str) -> None:
    questions = BrokerQuestions(KafkaSettings("events", address, {}), patience=5.0)
    for _ in range(2):
        try:
            questions.answers(
                "clicks", ["clicks"], lambda client, _: client.describe_topics(TopicCollection(["clicks"]))
            )
            print("known", flush=True)  # noqa: T201 - what its parent reads
        except (KafkaBusyError, QuestionRefusedError):
            print("goes on", flush=True)  # noqa: T201


def test_whoever_asks_a_broker_that_knows_none_goes_on() -> None:
    broker = Restarted([], {"clicks": (0, 1)})
    with listening(broker) as listener:
        broker.brokers = [("127.0.0.1", listener.port)]
        process = ForkedProcess(ask_twice, listener.address)
        # The client may ask for the topic before or after it has heard that there is no broker.
        assert process.stdout.read() == "known\ngoes on\n"
        assert process.wait(patience(30)) == 0
