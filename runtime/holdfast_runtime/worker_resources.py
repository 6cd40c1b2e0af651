"""Things that functions set up once per worker process and close at its end: a client, a model.

A resource is a function that yields once, as for `contextlib.contextmanager`. It is set up by the first call that asks
for it, so that the driver, which imports the same modules, sets up nothing. It is closed when nobody in its process
calls functions any more. Must not know workers, nor what a resource is.
"""

import atexit
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

Resource = TypeVar("Resource")
Steps = Callable[[], Iterator[Resource]]


class WorkerSetUpError(Exception):
    """What functions need could not be set up; no row is to blame."""


def worker_resource(make: Steps[Resource]) -> Callable[[], Resource]:
    """Turn a function that yields a thing once into one that returns it, the same at each call in a worker process.

    What comes before the `yield` is done at the first call, what comes behind it when the worker has no more to do: at
    the end of the run or attempt, when a test closes its driver, when tasks move. A process that is killed closes
    nothing. Calls may come from several threads.
    """
    is_generator: bool = inspect.isgeneratorfunction(make)
    if not is_generator:
        message = f"{make.__qualname__} has no yield: a worker resource yields the thing, and closes it behind that"
        raise TypeError(message)

    @wraps(make)
    def resource() -> Resource:
        return _held.get(make)

    return resource


@contextmanager
def calling_functions() -> Iterator[None]:
    """Close the resources of this process at the end, unless others here still call functions."""
    _held.use()
    try:
        yield
    finally:
        _held.leave()


def close_resources() -> None:
    """Close the resources of this process, the newest first."""
    _held.close()


def before_the_first(act: Callable[[], None]) -> None:
    """Have this called before a process sets up its first resource, also in processes that are forked from this one."""
    _held.before_the_first = act


def resources_held() -> bool:
    """Return whether this process has resources that are not closed yet."""
    return _held.any


def closing_resources() -> bool:
    """Return whether this process is closing its resources."""
    return _held.closing


class _HeldResources:
    """The resources of this process, in the order in which they were set up."""

    def __init__(self) -> None:
        self.before_the_first: Callable[[], None] = lambda: None
        self.forget()

    def forget(self) -> None:
        """Begin with nothing, as a process does that was forked: all it has is its parent's."""
        self._lock = threading.RLock()
        self._held: dict[Steps[Any], tuple[Any, Iterator[Any]]] = {}
        self._users = 0
        self.closing = False

    def get(self, make: Steps[Resource]) -> Resource:
        """Return a resource, set up if it is not yet."""
        with self._lock:
            if make not in self._held:
                if not self._held:
                    self.before_the_first()
                self._held[make] = _set_up(make)
            resource: Resource = self._held[make][0]
            return resource

    @property
    def any(self) -> bool:
        """Whether there are any, or one that is being closed."""
        return self.closing or bool(self._held)

    def use(self) -> None:
        """Note that somebody calls functions."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Note that somebody calls no more; the last one closes all resources."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self.close()

    def close(self) -> None:
        """Close all resources. What one raises is printed, and the others are closed too."""
        with self._lock:
            self.closing = True
            while self._held:
                make, (_, steps) = self._held.popitem()
                _tear_down(make, steps)
            self.closing = False


_held = _HeldResources()
os.register_at_fork(after_in_child=_held.forget)
atexit.register(close_resources)


def _set_up(make: Steps[Resource]) -> tuple[Resource, Iterator[Resource]]:
    steps = make()
    try:
        return next(steps), steps
    except Exception as error:
        message = f"{make.__qualname__} could not be set up: {type(error).__name__}: {error}"
        raise WorkerSetUpError(message).with_traceback(error.__traceback__) from error


def _tear_down(make: Steps[Any], steps: Iterator[Any]) -> None:
    try:
        for _ in steps:
            sys.stderr.write(f"{make.__qualname__} yields twice: a worker resource yields once\n")
            assert isinstance(steps, Generator)  # noqa: S101 - as was checked
            steps.close()
    except Exception:  # noqa: BLE001 - what functions have done is committed
        traceback.print_exc()
