"""Processes that compute the batches of one slot, of which each stops at every step and may stay there for long.

A driver asks one process at a time; those before it know nothing of that and go on whenever they are let. Functions
answer differently each time. What the model of brokers has: a name that one process holds at a time, transactions that
are committed only by who holds it, and what was committed. What is real: stores, deltas, fences, the commit.
"""

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast_runtime.slot.kept_stores import KeptStores
from holdfast_runtime.state.commit import TaskCommit, commit
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.opening import OpenedStore, open_store
from holdfast_runtime.state.durable.storage import Chunk, DirectoryStorage
from holdfast_runtime.state.store.delta import Delta
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.streams.markers import is_written
from holdfast_runtime.streams.records import Marker
from tests.waiting import patience

TASKS = ("a", "b")
_QUOTA = 1 << 24
_ANSWERS_WITHIN = patience(60)
_MOST_TRIES = 50
Step = Callable[[], None]


class _KilledError(BaseException):
    """The process is not there any more."""


class Inline:
    """A pool of one thread, the caller's: a process is at one step at a time."""

    def of(self, _: int) -> "Inline":
        return self

    def submit(self, act: Callable[..., None], *arguments: Any) -> "Future[None]":
        done = Future[None]()
        try:
            act(*arguments)
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - as pools do
            done.set_exception(error)
        return done


@dataclass(frozen=True, slots=True)
class SteppedStorage(DirectoryStorage):
    """A folder that is reached step by step."""

    step: Step = lambda: None

    def below(self, *names: str) -> "SteppedStorage":
        return SteppedStorage(self.root.joinpath(*names), self.sync, self.step)

    def names(self) -> list[str]:
        self.step()
        return DirectoryStorage.names(self)

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        self.step()
        return DirectoryStorage.write(self, name, chunks, replace=replace)


class Written(NamedTuple):
    """What a transaction has committed of one task."""

    marker: Marker
    outputs: Mapping[str, bytes]


@dataclass(slots=True)
class Brokers:
    """What all processes see of Kafka."""

    newest: int = 0
    """The attempt that may write."""
    holders: dict[int, object] = field(default_factory=dict)
    """Attempt -> who holds the name of its slot."""
    written: list[Written] = field(default_factory=list)

    def begin(self, attempt: int) -> dict[str, Marker]:
        """Shut out earlier attempts; return what they have committed."""
        self.newest = attempt
        self.holders = {}
        return self.markers()

    def markers(self) -> dict[str, Marker]:
        return {written.marker.task: written.marker for written in self.written}


class Session:
    """A name, as long as nobody else takes it, and what was known when it was taken."""

    def __init__(self, brokers: Brokers, attempt: int, step: Step) -> None:
        step()
        brokers.holders[attempt] = self
        step()
        if brokers.newest != attempt:
            message = "a newer attempt is here"
            raise HoldfastError(message)
        self.markers = brokers.markers()


@dataclass(slots=True)
class Transactions:
    """The transactions of one process, as `SlotTransaction` and `TransactionalWriter` have them."""

    brokers: Brokers
    attempt: int
    before: Mapping[str, Marker]
    decides: str | None
    step: Step
    chance: random.Random
    session: Session | None = None

    def hold(self) -> None:
        if self.session is None:
            self.session = Session(self.brokers, self.attempt, self.step)

    def take(self) -> None:
        self.session = None
        self.hold()

    def has(self, delta: Delta) -> bool:
        markers = self.before if self.session is None else self.session.markers
        return is_written(self.marker(delta), markers.get(delta.identity.task), "Kafka")

    def marker(self, delta: Delta) -> Marker:
        return Marker("shop/1", delta.identity.task, delta.batch, self.attempt, "life", delta.digest)

    def write(self, deltas: Sequence[Delta], decided: Step) -> None:
        """Commit the outputs of these deltas, unless they are committed."""
        while True:
            self.hold()
            assert self.session is not None
            known = self.session.markers
            left = [
                Written(self.marker(delta), delta.outputs)
                for delta in deltas
                if delta.outputs and not is_written(self.marker(delta), known.get(delta.identity.task), "Kafka")
            ]
            if not left:
                return
            self.step()
            decided()
            self.step()
            session, self.session = self.session, None
            if self.brokers.holders.get(self.attempt) is session:
                self.brokers.written += left
                if self.chance.random() < 0.1:
                    message = "the answer was lost"
                    raise RetrySoonError(message)
                session.markers |= {written.marker.task: written.marker for written in left}
                self.session = session
                return
            if self.decides is not None:
                message = "taken over"
                raise RetrySoonError(message)


class Host:
    """A disk, from which the checkpoint of all is reached."""

    def __init__(self, folder: Path, step: Step = lambda: None) -> None:
        folder.mkdir()
        (folder / "boot_id").write_text("first boot\n")
        self._folder = folder
        self._storage = SteppedStorage(folder.parent / "checkpoint", sync=False, step=step)

    def durable(self, task: str) -> DurableCopy:
        return DurableCopy(self._storage, TaskIdentity("shop", "1", task))

    def opened(self, task: str, batch: int, attempt: int) -> OpenedStore:
        durable = self.durable(task)
        directory = StoreDirectory(self._folder / task, durable.identity, _QUOTA, self._folder / "boot_id")
        return open_store(directory, durable, batch, attempt, new=batch == 1)


class Process:
    """One process of a slot, with a disk of its own."""

    def __init__(self, world: "World", *, stays: bool) -> None:
        """`stays`: its transactions decide; otherwise deltas have the outputs."""
        self._host = Host(world.folder / f"disk-{len(world.processes)}", self.step)
        self._chance = world.chance
        self.attempt = world.brokers.newest
        self._transactions = Transactions(
            world.brokers, self.attempt, world.before, "events" if stays else None, self.step, world.chance
        )
        self._stores = KeptStores()
        self._go, self._waits = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._killed = self._ended = False
        self.answer: BaseException | None = None
        """What went wrong in the last batch; None: nothing."""

    @property
    def busy(self) -> bool:
        return self._thread is not None

    def step(self) -> None:
        """Wait to be let on."""
        self._waits.release()
        self._go.acquire()
        if self._killed:
            raise _KilledError

    def ask(self, batch: int) -> None:
        """Begin a batch."""
        self._thread = threading.Thread(target=self._run, args=(batch,), daemon=True)
        self._thread.start()
        self._wait()

    def go_on(self) -> None:
        """Take one more step."""
        self._go.release()
        self._wait()

    def kill(self) -> None:
        self._killed = True
        while self.busy:
            self.go_on()
        self._stores.close()

    def _wait(self) -> None:
        """Return when the process has come to its next step, or to its end."""
        assert self._waits.acquire(timeout=_ANSWERS_WITHIN), "a process neither steps nor ends"
        if self._ended and self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, batch: int) -> None:
        self._ended = False
        try:
            self.step()
            self._commit(batch)
            self.answer = None
        except BaseException as error:  # noqa: BLE001 - the driver says what it means
            self.answer = error
        self._ended = True
        self._waits.release()

    def _commit(self, batch: int) -> None:
        with ExitStack() as stack:
            parts = [self._opened(task, batch) for task in TASKS]
            for part in parts:
                stack.callback(part.store.close)
            commit(parts, self.attempt, self._computed(batch), self._transactions.write, self._transactions, self._at)
            if self._transactions.decides is not None:
                self._stores.keep(parts)
                stack.pop_all()

    def _opened(self, task: str, batch: int) -> TaskCommit:
        marker = self._transactions.before.get(task)
        sent = None if marker is None else marker.batch
        durable = self._host.durable(task)
        if (store := self._stores.take(task, batch, self.attempt)) is not None:
            return TaskCommit(store, durable, batch, sent, goes_on=True)
        return TaskCommit(self._host.opened(task, batch, self.attempt).store, durable, batch, sent)

    def _computed(self, batch: int) -> Callable[[Sequence[TaskStore]], dict[str, dict[str, bytes]]]:
        def compute(stores: Sequence[TaskStore]) -> dict[str, dict[str, bytes]]:
            outputs: dict[str, dict[str, bytes]] = {}
            for store in stores:
                table, key = store.table("rows"), b"%02d" % batch
                row = self._chance.randbytes(4) if self._chance.random() < 0.7 else b""
                table.put(key, row)
                outputs[store.task] = {"out": row} if row else {}
            return outputs

        return compute

    def _at(self, _: str) -> None:
        self.step()


class World:
    """All processes of a run, and its driver."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance, self.brokers = folder, chance, Brokers()
        self.processes: list[Process] = []
        self.before: dict[str, Marker] = {}
        self._stays = True
        self._begin_attempt()

    def run(self, batches: int, disturbances: int) -> None:
        """Run batches; so often the current process is given up in the middle."""
        current = self._new()
        for batch in range(1, batches + 1):
            current.ask(batch)
            tries = 0
            while current.busy or current.answer is not None:
                if not current.busy:
                    tries += 1
                    assert tries < _MOST_TRIES, "nothing comes of a batch, however often it is tried"
                    assert isinstance(current.answer, RetrySoonError), current.answer
                    current.ask(batch)
                elif disturbances and self.chance.random() < 0.04:
                    disturbances -= 1
                    current = self._instead(current)
                    current.ask(batch)
                else:
                    self.chance.choice([current, *(process for process in self.processes if process.busy)]).go_on()

    def end(self) -> None:
        for process in self.processes:
            process.kill()

    def rows(self, batches: int) -> dict[str, dict[bytes, bytes]]:
        """Task -> its state, as a host finds it that has nothing."""
        host, rows = Host(self.folder / "disk"), dict[str, dict[bytes, bytes]]()
        for task in TASKS:
            with host.opened(task, batches + 1, self.brokers.newest).store as store:
                rows[task] = dict(store.table("rows").scan())
        return rows

    def _instead(self, process: Process) -> Process:
        """Give a process up: it dies, or goes on without being asked again."""
        if self.chance.random() < 0.5:
            process.kill()
        if self.chance.random() < 0.4:
            self._begin_attempt()
        return self._new()

    def _new(self) -> Process:
        if self.chance.random() < 0.2:
            self._stays = not self._stays
        process = Process(self, stays=self._stays)
        self.processes.append(process)
        return process

    def _begin_attempt(self) -> None:
        self.before = self.brokers.begin(self.brokers.newest + 1)


def drawn(folder: Path, seed: int, batches: int = 3, disturbances: int = 5) -> None:
    """A drawn run; what was seen is what its state says, once."""
    world = World(folder, random.Random(seed))  # noqa: S311 - to see the same again
    try:
        world.run(batches, disturbances)
    finally:
        world.end()
    written = [(one.marker.task, one.marker.batch, one.outputs["out"]) for one in world.brokers.written]
    rows = world.rows(batches)
    by_state = [(task, int(key), row) for task in TASKS for key, row in rows[task].items() if row]
    assert sorted(written) == sorted(by_state), f"seed {seed}"
    assert all([*rows[task]] == [b"%02d" % batch for batch in range(1, batches + 1)] for task in TASKS)
