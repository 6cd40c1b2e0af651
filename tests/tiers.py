"""The tiers of tests, found from what a test can start: a process, a Spark session, or neither.

A test that starts one is `real`: it waits for others, and runs in `make test-real`. All others are pure and run in
`make test`. What a test can start is followed from its own code and that of its fixtures through whatever they name of
the tests, so that nobody has to keep a list; `pytest --why-real` prints the way. It must not run anything to find out.
"""

import multiprocessing
import subprocess
import types
from collections.abc import Iterator
from functools import cache

import pytest
from pyspark.sql import SparkSession

_STARTERS: tuple[object, ...] = (subprocess, multiprocessing, SparkSession)
_STARTING = frozenset({"fork", "getfixturevalue"})
"""What code that calls it may start, whatever it is called on; a fixture asked for by name may be any."""


def why_real(item: pytest.Item) -> str | None:
    """Return how a test comes to start a process or a Spark session, None if it can't: `spark -> SparkSession`."""
    assert isinstance(item, pytest.Function)
    fixtures = item._fixtureinfo.name2fixturedefs  # noqa: SLF001 - pytest has no public way to what it will call
    roots = [item.obj, *(fixture.func for several in fixtures.values() for fixture in several)]
    path = next(filter(None, map(_path_from, roots)), None)
    return None if path is None else " -> ".join(path)


@cache
def _path_from(root: object) -> list[str] | None:
    """Most tests are examples of one function, and share fixtures: each is followed once."""
    return _path_to_start(root, set())


def _path_to_start(thing: object, visited: set[int]) -> list[str] | None:
    """Return the names that lead from a thing to what starts something."""
    if thing in _STARTERS or type(thing).__module__.startswith("multiprocessing"):
        return [_name(thing)]
    if id(thing) in visited:
        return None
    visited.add(id(thing))
    path = next(filter(None, (_path_to_start(one, visited) for one in _reached(thing))), None)
    return None if path is None else [_name(thing), *path]


def _name(thing: object) -> str:
    return str(getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None) or type(thing).__name__)


def _reached(thing: object) -> Iterator[object]:
    """What a function, a method or a class of the tests names."""
    if isinstance(thing, types.MethodType):
        thing = thing.__func__
    thing = getattr(thing, "__wrapped__", thing)
    if isinstance(thing, property):
        yield from (one for one in (thing.fget, thing.fset) if one)
    elif isinstance(thing, (staticmethod, classmethod)):
        yield thing.__func__
    elif isinstance(thing, type) and _of_tests(thing):
        yield from vars(thing).values()
        yield from thing.__bases__
    elif isinstance(thing, types.FunctionType) and _of_tests(thing):
        for code in _codes(thing.__code__):
            if _STARTING.intersection(code.co_names):
                yield subprocess
            for name in code.co_names:
                if name in thing.__globals__:
                    yield from _named(thing.__globals__[name], code)


def _named(thing: object, code: types.CodeType) -> Iterator[object]:
    yield thing
    if isinstance(thing, types.ModuleType) and _of_tests(thing):
        yield from (vars(thing)[name] for name in code.co_names if name in vars(thing))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _of_tests(thing: object) -> bool:
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", "")
    return str(name).startswith("tests")
