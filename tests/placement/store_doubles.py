"""Stores around a real store: one that dies with its process, one whose answers get lost, one that takes turns."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread

from holdfast.errors import RetrySoonError
from holdfast.placement.metadata_store import MetadataStore, Version, Versioned
from tests.waiting import patience

PATIENCE = patience(30)


class DiedError(BaseException):
    """The process is gone: nothing in it may go on, so nothing may catch this."""


class AnswerLostError(RetrySoonError):
    """The operation was done, and its answer never came."""


class Watched:
    """A store around whose operations something happens."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    @contextmanager
    def around(self) -> Iterator[None]:
        yield

    def get(self, key: str) -> Versioned | None:
        with self.around():
            return self._store.get(key)

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        with self.around():
            return self._store.put(key, value, expected)

    def remove(self, key: str, expected: Version) -> None:
        with self.around():
            self._store.remove(key, expected)


class Dying(Watched):
    """Does `operations`, then dies."""

    def __init__(self, store: MetadataStore, operations: int) -> None:
        super().__init__(store)
        self.left = operations

    @contextmanager
    def around(self) -> Iterator[None]:
        if self.left == 0:
            raise DiedError
        self.left -= 1
        yield


class LosingAnswer(Watched):
    """Does every operation, and loses the answer of number `lost`."""

    def __init__(self, store: MetadataStore, lost: int) -> None:
        super().__init__(store)
        self.left = lost

    @contextmanager
    def around(self) -> Iterator[None]:
        yield
        self.left -= 1
        if self.left == -1:
            raise AnswerLostError


class Turn(Watched):
    """Waits for its turn before each operation. One of these for each actor of `take_turns`."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self.waiting: SimpleQueue[bool] = SimpleQueue()
        self.go: SimpleQueue[None] = SimpleQueue()

    @contextmanager
    def around(self) -> Iterator[None]:
        self.waiting.put(True)
        self.go.get(timeout=PATIENCE)
        yield


def take_turns(
    store: MetadataStore, actors: Sequence[Callable[[MetadataStore], object]], turns: Iterator[int]
) -> list[object]:
    """Runs all actors, one store operation at a time; what each returned or raised.

    `turns` gives the number of the actor whose turn it is; one that is done is passed over.
    """
    results: list[object] = [None] * len(actors)
    stores = [Turn(store) for _ in actors]

    def run(number: int) -> None:
        try:
            results[number] = actors[number](stores[number])
        except Exception as error:  # noqa: BLE001
            results[number] = error
        finally:
            stores[number].waiting.put(False)

    threads = [Thread(target=run, args=(number,), daemon=True) for number in range(len(actors))]
    for thread in threads:
        thread.start()
    # Each actor stands before its next operation, or is done, whenever somebody is chosen: nothing is left to chance.
    ready = {number: turn for number, turn in enumerate(stores) if turn.waiting.get(timeout=PATIENCE)}
    for number in turns:
        if not ready:
            break
        if number in ready:
            ready[number].go.put(None)
            if not ready[number].waiting.get(timeout=PATIENCE):
                del ready[number]
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    return results
