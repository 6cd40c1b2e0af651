"""Why: how many partitions topics have, asked once per Kafka system, not once per app.

A look takes what was answered last; a thread asks the brokers anew every so often, at once for what nobody has asked
for before, and whoever is concerned by a change is looked at. Until there is an answer the count is unknown, which is
not the same as a topic that is not there. Settings by which an app would get at files or at the identity of this
process never come to a client. Must not judge counts.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError
from holdfast.kafka_settings import unacceptable_for_others
from holdfast.spec.app import StreamApp
from holdfast_operator.cache import Key
from holdfast_operator.facts import Unknown

_AT_ONCE = 16
Ask = Callable[[str, str, Mapping[str, str], Collection[str]], Mapping[str, int | None]]


@dataclass(frozen=True, slots=True)
class _System:
    """What one client can answer for."""

    bootstrap: str
    config: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(slots=True)
class Topics:
    """What brokers have answered."""

    ask: Ask
    changed: Callable[[Key], None]
    """Told which apps read a topic whose count is another one now."""
    wanted: Callable[[], None] = lambda: None
    """Told when somebody wants to know what has not been asked yet."""
    forget_after: float = 3600.0
    _wanted: dict[_System, dict[str, dict[Key, float]]] = field(default_factory=dict)
    """System -> topic -> who wants to know, and since when nobody asked again."""
    _answers: dict[_System, Mapping[str, int | None] | Unknown] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def counts(
        self, key: Key, app: StreamApp, secrets: Mapping[str, Mapping[str, str]]
    ) -> Mapping[str, int | None] | Unknown:
        """By stream, for all Kafka streams of an app; unknown until all of them are known.

        `secrets`: name -> settings of the client, which count over those of the spec.
        """
        found: dict[str, int | None] = {}
        for system in app.spec.systems:
            streams = [one for one in app.spec.streams if one.system == system.name]
            if system.kafka is None or not streams:
                continue
            config = {**system.kafka.config, **secrets.get(system.kafka.secret_name or "", {})}
            fault = unacceptable_for_others(config)
            if fault is not None:
                return Unknown(
                    f"spec.systems: the config or Secret of {system.name} can't be used by the operator: {fault}"
                )
            known = _System(system.kafka.bootstrap_servers, tuple(sorted(config.items())))
            topics = {one.name: one.topic or one.name for one in streams}
            answers = self._answered(known, key, frozenset(topics.values()))
            if isinstance(answers, Unknown):
                return answers
            found |= {name: answers[topic] for name, topic in topics.items()}
        return found

    def refresh(self, *, everything: bool = True) -> None:
        """Ask every system, and tell who is concerned by what changed. Blocks: for a thread of its own.

        Without `everything` only what has no answer yet is asked for. Systems are asked side by side: one that does not
        answer keeps nobody else waiting.
        """
        with self._lock:
            self._drop_old()
            wanted = {system: dict(topics) for system, topics in self._wanted.items()}
        if wanted:
            with ThreadPoolExecutor(min(len(wanted), _AT_ONCE), "topics") as pool:
                list(pool.map(lambda one: self._refresh(*one, everything=everything), wanted.items()))

    def _refresh(self, system: _System, wanted: Mapping[str, Mapping[Key, float]], *, everything: bool) -> None:
        with self._lock:
            last = self._answers.get(system)
        before = {} if last is None or isinstance(last, Unknown) else last
        topics = frozenset(name for name in wanted if everything or name not in before)
        if not topics:
            return
        try:
            said = self.ask(system.bootstrap, system.bootstrap, dict(system.config), topics)
            answer: Mapping[str, int | None] | Unknown = {**before, **said}
        except HoldfastError as error:
            answer = Unknown(str(error))
        with self._lock:
            self._answers[system] = answer
        changed = [topic for topic in topics if _of(last, topic) != _of(answer, topic)]
        for key in {key for topic in changed for key in wanted[topic]}:
            self.changed(key)

    def _answered(self, system: _System, key: Key, topics: frozenset[str]) -> Mapping[str, int | None] | Unknown:
        now = time.monotonic()
        with self._lock:
            wanted = self._wanted.setdefault(system, {})
            fresh = not topics <= wanted.keys()
            for topic in topics:
                wanted.setdefault(topic, {})[key] = now
            answer = self._answers.get(system)
        if fresh:
            self.wanted()
        if isinstance(answer, Unknown) or (answer is not None and topics <= answer.keys()):
            return answer
        return Unknown(f"the brokers at {system.bootstrap} are being asked", asked=False)

    def _drop_old(self) -> None:
        limit = time.monotonic() - self.forget_after
        for system, topics in list(self._wanted.items()):
            for topic, keys in list(topics.items()):
                kept = {key: since for key, since in keys.items() if since > limit}
                if kept:
                    topics[topic] = kept
                else:
                    del topics[topic]
            if not topics:
                del self._wanted[system]
                self._answers.pop(system, None)


def _of(answer: Mapping[str, int | None] | Unknown | None, topic: str) -> object:
    """What can be told apart: a count, no topic, or why it is not known."""
    if answer is None or isinstance(answer, Unknown):
        return answer
    return answer.get(topic, "not asked")
