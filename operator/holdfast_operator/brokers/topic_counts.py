"""Partition counts of the topics of all apps, read once per Kafka system rather than once per app.

A look uses the last answer. Threads ask the brokers regularly, and at once for new topics; apps whose counts changed
are looked at. Until there is an answer, a count is unknown, which differs from a topic that does not exist. Failed
connection attempts are logged, but not shown to the app's author. Must not judge counts.
"""

import asyncio
import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError
from holdfast.one_line import one_line
from holdfast.spec.app import StreamApp
from holdfast.spec.kafka_settings import asking, unacceptable_when_asking
from holdfast_operator.brokers.partition_counts import UnansweredError
from holdfast_operator.decide.facts import AppKey, Unknown

_LOG = logging.getLogger("holdfast")
_AT_ONCE = 64
_NEW, _SILENT = 16, 4
"""Maximum systems per namespace and round: new ones, and ones that did not answer last time. Each can take the full
timeout, so a namespace with more of them only delays itself."""
AskBrokers = Callable[[str, str, Mapping[str, str], Collection[str]], Mapping[str, int | None]]


@dataclass(frozen=True, slots=True)
class _System:
    """A Kafka system with the settings it is asked with."""

    bootstrap: str
    config: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(slots=True)
class TopicCounts:
    """The last answers of all brokers."""

    ask: AskBrokers
    changed: Callable[[AppKey], None]
    """Called for each app that reads a topic whose count has changed."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a topic is wanted that has not been asked for yet."""
    forget_after: float = 3600.0
    clock: Callable[[], float] = time.monotonic
    _wanted: dict[_System, dict[str, dict[AppKey, float]]] = field(default_factory=dict)
    """System -> topic -> app -> when it last asked."""
    _answers: dict[_System, Mapping[str, int | None] | Unknown] = field(default_factory=dict)
    _asked: dict[_System, float] = field(default_factory=dict)
    """System -> when it was last asked."""
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_AT_ONCE, "topics"))

    async def run(self, every: float) -> None:
        """Ask all systems every so many seconds, and at once for new topics, until cancelled."""
        due = self.clock()
        while True:
            everything = self.clock() >= due
            self.news.clear()
            await self.refresh(everything=everything)
            due = self.clock() + every if everything else due
            try:
                async with asyncio.timeout(max(0.0, due - self.clock())):
                    await self.news.wait()
            except TimeoutError:
                continue

    def counts(
        self, key: AppKey, app: StreamApp, secrets: Mapping[str, Mapping[str, str]]
    ) -> Mapping[str, int | None] | Unknown:
        """Return the counts of all Kafka streams of an app, by stream; `Unknown` until all of them are known.

        `secrets`: name -> client settings, which take precedence over those of the spec.
        """
        counts: dict[str, int | None] = {}
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
            brokers = _System(system.kafka.bootstrap_servers, tuple(sorted(asking(config).items())))
            topics = {one.name: one.topic or one.name for one in streams}
            answers = self._answered(brokers, key, frozenset(topics.values()))
            if isinstance(answers, Unknown):
                return answers
            counts |= {name: answers[topic] for name, topic in topics.items()}
        return counts

    async def refresh(self, *, everything: bool = True) -> None:
        """Ask the systems and call `changed` for the affected apps; without `everything`, only for new topics.

        Systems are asked in parallel, so that a silent one does not delay the others.
        """
        self._drop_old()
        await asyncio.gather(*(self._refresh(*one) for one in self._round(everything=everything)))

    def _round(self, *, everything: bool) -> list[tuple[_System, frozenset[str]]]:
        """Choose the systems and topics to ask for now; those that waited longest come first."""
        chosen, turns_taken, left = [], Counter[tuple[bool, str]](), False
        for system, topics in sorted(self._wanted.items(), key=lambda wish: self._asked.get(wish[0], 0.0)):
            last = self._answers.get(system)
            silent = isinstance(last, Unknown)
            due = topics.keys() if everything or last is None else _unanswered(last, topics)
            if not due:
                continue
            if silent or last is None:
                turns = {(silent, key.namespace) for keys in topics.values() for key in keys}
                if min(turns_taken[turn] for turn in turns) >= (_SILENT if silent else _NEW):
                    left |= not silent
                    continue
                turns_taken.update(turns)
            self._asked[system] = self.clock()
            chosen.append((system, frozenset(due)))
        if left:
            self.news.set()
        return chosen

    async def _refresh(self, system: _System, topics: Collection[str]) -> None:
        last = self._answers.get(system)
        before = {} if last is None or isinstance(last, Unknown) else last
        try:
            ask = functools.partial(self.ask, system.bootstrap, system.bootstrap, dict(system.config), topics)
            counts = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
            answer: Mapping[str, int | None] | Unknown = {**before, **counts}
        except HoldfastError as error:
            answer = Unknown(one_line(error))
            if isinstance(error, UnansweredError) and answer != last:
                _LOG.warning("%s Tried: %s.", answer.why, error.tried)
        self._answers[system] = answer
        keys_by_topic = self._wanted.get(system, {})
        changed = [topic for topic in topics if _of(last, topic) != _of(answer, topic)]
        for key in sorted({key for topic in changed for key in keys_by_topic.get(topic, ())}):
            self.changed(key)

    def _answered(self, system: _System, key: AppKey, topics: frozenset[str]) -> Mapping[str, int | None] | Unknown:
        keys_by_topic = self._wanted.setdefault(system, {})
        if not topics <= keys_by_topic.keys():
            self.news.set()
        for topic in topics:
            keys_by_topic.setdefault(topic, {})[key] = self.clock()
        answer = self._answers.get(system)
        if isinstance(answer, Unknown) or (answer is not None and topics <= answer.keys()):
            return answer
        return Unknown(f"the brokers at {system.bootstrap} are being asked", asked=False)

    def _drop_old(self) -> None:
        limit = self.clock() - self.forget_after
        for system, topics in list(self._wanted.items()):
            for topic, keys in list(topics.items()):
                recent_keys = {key: since for key, since in keys.items() if since > limit}
                if recent_keys:
                    topics[topic] = recent_keys
                else:
                    del topics[topic]
            if not topics:
                del self._wanted[system]
                self._answers.pop(system, None)
                self._asked.pop(system, None)


def _unanswered(last: Mapping[str, int | None] | Unknown, topics: Mapping[str, object]) -> Collection[str]:
    """Return the topics not asked for yet; none for a system that did not answer."""
    return () if isinstance(last, Unknown) else topics.keys() - last.keys()


def _of(answer: Mapping[str, int | None] | Unknown | None, topic: str) -> object:
    """Return a comparable answer: a count, None for no topic, or why it is not known."""
    if answer is None or isinstance(answer, Unknown):
        return answer
    return answer.get(topic, "not asked")
