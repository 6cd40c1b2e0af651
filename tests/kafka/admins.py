"""Admin clients whose answers are known, one after the other, as the product makes them.

Must not be imported by product code, nor used where a real broker would show more.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, ListOffsetsResultInfo  # type: ignore[attr-defined]  # it exports them unsaid

SILENCE = None
BLANK = ListOffsetsResultInfo(-1001, -1, -1)
"""What librdkafka answers by itself when a leader is away."""
_REPLICAS = (("c", 2), ("::1", 3), (None, -1))
_ON_TWO_BROKERS = SimpleNamespace(
    partitions=[
        SimpleNamespace(replicas=[SimpleNamespace(id=number, host=host, port=port)])
        for number, (host, port) in enumerate(_REPLICAS)
    ]
)
"""Where a topic is: a third broker is away."""
AdminAnswer = ListOffsetsResultInfo | SimpleNamespace | Mapping[str, Any] | int | None
"""An answer, the code of a refusal, or `SILENCE`."""


class Admins:
    """Called as `AdminClient` is: each client gives one answer, again and again; the last one all the rest."""

    def __init__(self, *answers: AdminAnswer) -> None:
        self._answers = [*answers]
        self.configs: list[Mapping[str, Any]] = []
        self.timeouts: list[float] = []
        """Seconds that each request was given."""

    def __call__(self, config: Mapping[str, Any], **_: object) -> "_Admin":
        """The next client."""
        self.configs.append(config)
        return _Admin(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0], self.timeouts)


class _Admin:
    def __init__(self, answer: AdminAnswer, timeouts: list[float]) -> None:
        self._answer, self._timeouts = answer, timeouts

    def list_offsets(
        self, offsets: Mapping[TopicPartition, object], *, request_timeout: float, **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        self._timeouts.append(request_timeout)
        return {place: self._answered() for place in offsets}

    def describe_topics(self, topics: TopicCollection, **_: object) -> dict[str, Future[Any]]:
        if isinstance(self._answer, ListOffsetsResultInfo):
            described: Future[Any] = Future()
            described.set_result(_ON_TWO_BROKERS)
            return dict.fromkeys(topics.topic_names, described)
        return {name: self._answered() for name in topics.topic_names}

    def describe_configs(self, resources: Sequence[ConfigResource], **_: object) -> dict[ConfigResource, Future[Any]]:
        return {resource: self._answered() for resource in resources}

    def _answered(self) -> Future[Any]:
        answer: Future[Any] = Future()
        if isinstance(self._answer, int):
            answer.set_exception(KafkaException(KafkaError(self._answer)))
        elif self._answer is not None:
            answer.set_result(self._answer)
        return answer

    def poll(self, _: float) -> None:
        """Nothing is left to deliver."""

    def __exit__(self, *_: object) -> None:
        """Nothing is left to close."""
