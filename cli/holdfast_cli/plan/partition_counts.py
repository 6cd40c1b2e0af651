"""Partition counts that the spec does not give: from the command line and from Kafka brokers.

Settings of the Kafka client come from the spec and from a file that the user names. A file named only by the spec is
never read. Must not plan.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import HoldfastError, UserActionError, WorldChangeError
from holdfast.planning.input_topics import near_inputs
from holdfast.spec.app import StreamApp
from holdfast.spec.streams import KafkaSystem, Stream, System
from holdfast_cli.plan.app_file import read_text
from holdfast_operator.brokers.partition_counts import UnansweredError, read_counts, read_topic_names

_MOST_PARTITIONS = 100_000
_MOST_DIGITS = len(str(_MOST_PARTITIONS))


def given_counts(app: StreamApp, arguments: Sequence[str]) -> dict[str, int]:
    """Parse arguments like `clicks=16`; every name must be a stream of the app."""
    streams = {stream.name for stream in app.spec.streams}
    counts: dict[str, int] = {}
    for argument in arguments:
        name, _, number = argument.partition("=")
        if name not in streams:
            message = (
                f"--partitions {argument}: {app.name} has no stream {name} (streams: {', '.join(sorted(streams))})"
            )
            raise UserActionError(message, code="UsageError")
        # Check the length first: Python refuses to parse numbers with thousands of digits.
        digits = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
        if not (digits and 0 < int(number) <= _MOST_PARTITIONS):
            message = f"--partitions {argument}: write {name}=N with N at least 1 and at most {_MOST_PARTITIONS}"
            raise UserActionError(message, code="UsageError")
        counts[name] = int(number)
    return counts


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What brokers say about the topics of an app."""

    counts: Mapping[str, int | None]
    """Stream -> partitions; None: there is no such topic."""
    near: Mapping[str, tuple[str, ...]]
    """Stream -> topics that may be meant."""


def topic_facts(
    app: StreamApp, option_counts: Mapping[str, int], config_file: str | None, timeout: float
) -> TopicFacts:
    """Ask for the counts of Kafka topics that were not given, with one question per system, and one more for names."""
    counts: dict[str, int | None] = {}
    config = _properties(config_file) if config_file else {}

    def settings(kafka: KafkaSystem) -> dict[str, str]:
        return _with_texts({**kafka.config, **config}, config)

    for system in app.spec.systems:
        streams = [s for s in app.spec.streams if s.system == system.name and s.name not in option_counts]
        if system.kafka is None or not streams:
            continue
        answers = _ask(system.name, system.kafka.bootstrap_servers, settings(system.kafka), streams, timeout)
        counts |= {stream.name: answers[stream.topic or stream.name] for stream in streams}

    def names_in(system: System) -> Collection[str]:
        if system.kafka is None:
            return ()
        kafka = system.kafka
        try:
            return read_topic_names(system.name, kafka.bootstrap_servers, settings(kafka), timeout=timeout)
        except HoldfastError:  # the plan has a problem without them, too
            return ()

    return TopicFacts(counts, near_inputs(app.spec, counts, names_in))


def _ask(
    system: str, bootstrap: str, config: Mapping[str, str], streams: Sequence[Stream], timeout: float
) -> dict[str, int | None]:
    topics = {stream.topic or stream.name for stream in streams}
    try:
        return read_counts(system, bootstrap, config, topics, timeout=timeout)
    except HoldfastError as error:
        names = " ".join(f"--partitions {stream.name}=N" for stream in streams)
        tried = f" Tried: {error.tried}." if isinstance(error, UnansweredError) else ""
        message = f"{error}{tried} A login can be given in a file with --kafka-config. With {names} no broker is asked."
        raise WorldChangeError(message, code="CountsUnknownError") from error


_TEXT_OF = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}


def _with_texts(config: Mapping[str, str], file_config: Mapping[str, str]) -> dict[str, str]:
    """Return settings with the content of files that `file_config` names. One that only the spec names is not read."""
    read = {text: read_text(Path(file_config[key])) for key, text in _TEXT_OF.items() if key in file_config}
    return {key: value for key, value in config.items() if key not in file_config or key not in _TEXT_OF} | read


def _properties(path: str) -> dict[str, str]:
    """Read settings of the Kafka client: `key=value` lines, as Kafka's own tools do."""
    settings: dict[str, str] = {}
    for number, line in enumerate(read_text(Path(path)).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, equals, value = text.partition("=")
        if not equals:
            message = f"{path}:{number}: write key=value"
            raise UserActionError(message, code="UsageError")
        settings[key.strip()] = value.strip()
    return settings
