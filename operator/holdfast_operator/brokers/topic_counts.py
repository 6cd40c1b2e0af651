"""The topics of all apps and their partition counts, asked once per Kafka system and not once per app.

A look takes what was answered last; a thread asks the brokers anew every so often, at once for what nobody has
asked for before, and apps concerned by a change are looked at. Until there is an answer the count is unknown, which
is not the same as a topic that is not there. What was tried in vain is for the log, not for whoever wrote the app.
Must not judge counts.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError
from holdfast.spec.app import StreamApp
from holdfast.spec.kafka_settings import asking, unacceptable_when_asking
from holdfast_operator.brokers.partition_counts import UnansweredError
from holdfast_operator.decide.facts import AppKey, Unknown

_LOG = logging.getLogger("holdfast")
_AT_ONCE = 64
_NEW, _SILENT = 16, 4
"""Of each namespace in one round: systems that nobody has asked yet, and those that were silent when last asked. Each
may take as long as asking may; whoever names more of them waits for himself."""
AskBrokers = Callable[[str, str, Mapping[str, str], Collection[str]], Mapping[str, int | None]]


@dataclass(frozen=True, slots=True)
class _System:
    """What one client can answer for."""

    bootstrap: str
    config: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(slots=True)
class TopicCounts:
    """What brokers have answered."""

    ask: AskBrokers
    changed: Callable[[AppKey], None]
    """Told which apps read a topic whose count is another one now."""
    wanted: Callable[[], None] = lambda: None
    """Told when somebody wants to know what has not been asked yet."""
    forget_after: float = 3600.0
    _wanted: dict[_System, dict[str, dict[AppKey, float]]] = field(default_factory=dict)
    """System -> topic -> who wants to know, and since when nobody asked again."""
    _answers: dict[_System, Mapping[str, int | None] | Unknown] = field(default_factory=dict)
    _asked: dict[_System, float] = field(default_factory=dict)
    """When each was asked last."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def counts(
        self, key: AppKey, app: StreamApp, secrets: Mapping[str, Mapping[str, str]]
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
            fault = unacceptable_when_asking(config)
            if fault is not None:
                return Unknown(
                    f"spec.systems: the config or Secret of {system.name} can't be used by the operator: {fault}"
                )
            known = _System(system.kafka.bootstrap_servers, tuple(sorted(asking(config).items())))
            topics = {one.name: one.topic or one.name for one in streams}
            answers = self._answered(known, key, frozenset(topics.values()))
            if isinstance(answers, Unknown):
                return answers
            found |= {name: answers[topic] for name, topic in topics.items()}
        return found

    def refresh(self, *, everything: bool = True) -> None:
        """Ask the systems, and tell who is concerned by what changed. Blocks: for a thread of its own.

        Without `everything` only what nobody has asked for yet is asked for. Systems are asked side by side: one that
        does not answer keeps nobody else waiting.
        """
        with self._lock:
            self._drop_old()
            round_ = self._round(everything=everything)
        if round_:
            with ThreadPoolExecutor(min(len(round_), _AT_ONCE), "topics") as pool:
                list(pool.map(lambda one: self._refresh(*one), round_))

    def _round(self, *, everything: bool) -> list[tuple[_System, frozenset[str]]]:
        """Who is asked now for which topics; who waited longest comes first, where not all can be."""
        chosen, taken, left = [], Counter[tuple[bool, str]](), False
        for system, topics in sorted(self._wanted.items(), key=lambda one: self._asked.get(one[0], 0.0)):
            last = self._answers.get(system)
            silent = isinstance(last, Unknown)
            due = topics.keys() if everything or last is None else _unanswered(last, topics)
            if not due:
                continue
            if silent or last is None:
                turns = {(silent, key.namespace) for keys in topics.values() for key in keys}
                if min(taken[turn] for turn in turns) >= (_SILENT if silent else _NEW):
                    left |= not silent
                    continue
                taken.update(turns)
            self._asked[system] = time.monotonic()
            chosen.append((system, frozenset(due)))
        if left:
            self.wanted()
        return chosen

    def _refresh(self, system: _System, topics: Collection[str]) -> None:
        with self._lock:
            last = self._answers.get(system)
        before = {} if last is None or isinstance(last, Unknown) else last
        try:
            said = self.ask(system.bootstrap, system.bootstrap, dict(system.config), topics)
            answer: Mapping[str, int | None] | Unknown = {**before, **said}
        except HoldfastError as error:
            answer = Unknown(str(error))
            if isinstance(error, UnansweredError) and answer != last:
                _LOG.warning("%s Tried: %s.", error, error.tried)
        with self._lock:
            self._answers[system] = answer
            wanted = {topic: list(keys) for topic, keys in self._wanted.get(system, {}).items()}
        changed = [topic for topic in topics if _of(last, topic) != _of(answer, topic)]
        for key in {key for topic in changed for key in wanted.get(topic, ())}:
            self.changed(key)

    def _answered(self, system: _System, key: AppKey, topics: frozenset[str]) -> Mapping[str, int | None] | Unknown:
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
                self._asked.pop(system, None)


def _unanswered(last: Mapping[str, int | None] | Unknown, topics: Mapping[str, object]) -> Collection[str]:
    """What nobody has asked for yet; of a system that did not answer, nothing."""
    return () if isinstance(last, Unknown) else topics.keys() - last.keys()


def _of(answer: Mapping[str, int | None] | Unknown | None, topic: str) -> object:
    """What can be told apart: a count, no topic, or why it is not known."""
    if answer is None or isinstance(answer, Unknown):
        return answer
    return answer.get(topic, "not asked")
