"""The stream systems of an app, made from its spec and from the host's resources: embedded log, generators, Kafka.

The one place that knows which kinds exist and what each needs: folders, secrets, rates, and what the attempt found when
it began. On a cluster there is no embedded log, because it belongs to one host. Must not read records.
"""

from collections.abc import Callable, Collection
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast.planning.plan import Plan
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import System
from holdfast_runtime.streams.app_streams import StreamsEnvironment
from holdfast_runtime.streams.codecs import arrow_schema, codec_for
from holdfast_runtime.streams.generator import GeneratedStream, Generator
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics
from holdfast_runtime.streams.kafka.client.settings import kafka_settings
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.user_functions import load_function


class SystemNotBuiltError(UserActionError):
    """A kind of system that is not available here."""


StreamSystem = EmbeddedLog | Generator | KafkaCluster


def kafka_counts(spec: AppSpec, secrets: Path | None) -> dict[str, int | None]:
    """Return the partition counts of an app's streams in Kafka, by stream; None if the topic does not exist."""
    found: dict[str, int | None] = {}
    for system in spec.systems:
        if system.kafka is not None:
            topics = KafkaTopics(kafka_settings(system, secrets))
            found |= {
                one.name: topics.count(one.topic or one.name) for one in spec.streams if one.system == system.name
            }
    return found


def make_kafka(system: System, app: str, where: StreamsEnvironment, timed: Collection[str]) -> KafkaCluster:
    """Return the Kafka cluster of a system, without contacting it."""
    kafka = system.kafka
    assert kafka is not None  # noqa: S101 - its kind says so
    return KafkaCluster(
        kafka_settings(system, where.secrets),
        app,
        kafka.delivery == "ExactlyOnce",
        where.before.get(system.name, {}),
        kafka.replication,
        where.limits.get(system.name, {}),
        timed,
    )


def make_single_host(
    system: System, spec: AppSpec, plan: Plan, where: StreamsEnvironment, clock: Callable[[], int]
) -> EmbeddedLog | Generator:
    """Return the embedded log or the generator of a system."""
    if system.generator is not None:
        return _generator(system, spec, plan, where, clock)
    return make_embedded_log(where, f"system {system.name}")


def make_embedded_log(where: StreamsEnvironment, what: str) -> EmbeddedLog:
    """Return the embedded log of this host; raise `SystemNotBuiltError` on a cluster."""
    if where.log is None:
        message = f"{what} would be kept in the embedded log, which one host alone has: on a cluster it needs Kafka"
        raise SystemNotBuiltError(message)
    return EmbeddedLog(where.log, sync=where.sync)


def _generator(
    system: System, spec: AppSpec, plan: Plan, where: StreamsEnvironment, clock: Callable[[], int]
) -> Generator:
    assert system.generator is not None  # noqa: S101 - its kind says so
    streams = []
    for stream in spec.streams:
        if stream.system == system.name:
            planned = plan.stream(stream.name)
            codec = codec_for(stream.format, arrow_schema(planned.rows))
            count = 1 if planned.count is None else planned.count.actual
            streams.append(GeneratedStream(planned.topic, count, stream.key, codec.encode))
    path = system.generator.function
    make = load_function(path, spec.runtime.code)
    return Generator(path, make, streams, pace=where.paces[system.name], clock=clock)
