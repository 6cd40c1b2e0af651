"""Functions by their paths; those that no import leads to are packed with all they use, or refused."""

import collections.abc
import math
from collections.abc import Callable, Iterator
from math import floor
from types import FunctionType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast_api import FunctionUnpackableError
from holdfast_api.packed_functions import PackedFunctions
from holdfast_runtime.streams.user_functions import load_function
from tests.waiting import wait_until

LIMIT, NAMES = 2, {"a": [1, None], "b": (True,)}
MOMENT = object()
counter = 0


def large(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.greater(batch.column("n"), LIMIT))


def rounded(value: float) -> int:
    return twice(floor(value)) + math.ceil(0.5)


def twice(value: int) -> int:
    return value * LIMIT


def named(key: str, limit: int = LIMIT) -> Iterator[Any]:
    yield NAMES[key], limit, even(4)


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def shadowing(MOMENT: int) -> list[int]:  # noqa: N803 - a parameter with the name of what can't be packed
    return [MOMENT + counter for counter in range(2)]


def by_moment() -> object:
    return MOMENT


def counting() -> int:
    global counter  # noqa: PLW0603 - what is refused
    counter += 1
    return counter


def decorated(function: Callable[[], int]) -> Callable[[], int]:
    return function


@decorated
def with_decorator() -> int:
    return 1


def packed() -> PackedFunctions:
    """Return the functions of an app in this file."""
    return PackedFunctions("my-app", __file__)


def loaded(functions: PackedFunctions, path: str) -> Callable[..., Any]:
    """Return a function as the app that is run gets it."""
    return load_function(path, {functions.module: functions.text})


def test_a_function_of_a_module_is_named() -> None:
    functions = packed()
    assert functions.path_of(wait_until) == "tests.waiting:wait_until"
    assert functions.text == ""


def test_a_function_of_the_file_of_the_app_is_packed() -> None:
    functions = packed()
    path = functions.path_of(large)
    assert path == "my_app_functions:large"
    batch = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
    assert loaded(functions, path)(batch).to_pydict() == {"n": [3]}


def test_a_packed_function_brings_what_it_uses() -> None:
    functions = packed()
    assert loaded(functions, functions.path_of(rounded))(2.7) == 5
    assert list(loaded(functions, functions.path_of(named))("b")) == [((True,), 2, True)]


def test_a_variable_hides_what_the_module_calls_the_same() -> None:
    functions = packed()
    assert loaded(functions, functions.path_of(shadowing))(3) == [3, 4]
    assert "object" not in functions.text


def test_packed_functions_are_the_same_text_each_time() -> None:
    texts = []
    for _ in range(2):
        functions = packed()
        for function in (named, rounded, large, large):
            functions.path_of(function)
        texts.append(functions.text)
    assert texts[0] == texts[1]
    assert texts[0].count("def twice") == 1


def closure(limit: int) -> Callable[[int], bool]:
    def inner(n: int) -> bool:
        return n > limit

    return inner


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda batch: batch, "a lambda has no name"),
        (closure(1), "function inner is defined inside closure.<locals>: put it into a module"),
        (by_moment, "function by_moment uses MOMENT, a object"),
        (counting, "a function changes counter of its module, which is lost"),
        (with_decorator, "function with_decorator is not a plain def, without decorators"),
        (collections.abc.Iterator, "is not a function that a name leads to"),
    ],
    ids=["lambda", "closure", "object", "global", "decorator", "class"],
)
def test_what_can_not_be_packed_is_refused_with_the_cure(function: Any, message: str) -> None:
    with pytest.raises(FunctionUnpackableError, match=message):
        packed().path_of(function)


def test_another_function_of_the_same_name_is_refused() -> None:
    functions = packed()
    functions.path_of(twice)
    other = FunctionType(named.__code__, globals(), "twice")
    with pytest.raises(FunctionUnpackableError, match="function twice is defined inside"):
        functions.path_of(other)
