"""The types that functions of apps import are true of what functions are given."""

import inspect
import sys
from collections.abc import Iterator

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.functions import Row, State, Timer
from holdfast_runtime.steps.keyed.key_state import KeyState
from holdfast_runtime.testing import TestDriver

APP = """\
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: x}
spec:
  systems: [{name: local, log: {}}]
  streams:
  - name: a
    system: local
    partitions: 1
    key: [k]
    schema: "k STRING, n INT, ts TIMESTAMP"
    eventTime: {column: ts, lateness: 1s}
  - {name: b, system: local, partitions: 1}
  - {name: dead, system: local, partitions: 1}
  steps:
  - {name: f, from: [a], process: {function: "typed:f", by: [k], schema: "seen STRING"}}
  - {name: out, from: [f], to: b}
  runtime:
    code:
      typed: |
        from tests.steps.test_function_types import called as f
"""


def members(state: type[State]) -> dict[str, inspect.Signature | None]:
    """What users call, with its parameters and types; None for a property."""
    public = [name for name in (*state.__annotations__, *vars(state)) if not name.startswith("_")]
    methods = {name: vars(state)[name] for name in public if callable(vars(state).get(name))}
    return {name: inspect.signature(methods[name]) if name in methods else None for name in public}


def called(key: str, rows: list[Row], state: State) -> Iterator[Row]:
    """Touch all that a function may be given."""
    assert isinstance(state, State)
    assert all(type(row) is dict for row in rows)
    assert isinstance(state.now, int)
    assert state.watermark is None or isinstance(state.watermark, int)
    assert isinstance(state.ended, bool)
    assert all(isinstance(state.is_late(row), bool) for row in rows)
    state["n"] = state.get("n", 0) + len(rows)
    if rows:
        state.at_event_time(rows[0]["ts"], "soon")
        state.at_time(state.now + 1000)
        assert all(isinstance(timer, Timer) for timer in state.timers)
        state.cancel_time()
        state.cancel_event_time("other")
    assert all(isinstance(timer, Timer) for timer in state.fired)
    yield {"seen": f"{key} {len(rows)} {[timer.name for timer in state.fired]}"}


def test_the_states_of_the_runtime_are_as_typed() -> None:
    assert members(KeyState) == members(State)


def test_a_function_gets_what_its_types_say() -> None:
    with TestDriver(APP) as driver:
        driver.feed("a", [{"k": "x", "n": 1, "ts": driver.now}, {"k": "x", "n": 2, "ts": driver.now}])
        driver.run_until_idle()
        driver.feed("a", [{"k": "y", "n": 1, "ts": driver.now.replace(minute=5)}])
        driver.run_until_idle()
        assert [row["seen"] for row in driver.rows("b")] == ["x 2 []", "y 1 []", "x 0 ['soon']"]


LOST = """\
        from holdfast_runtime.functions import worker_resource
        tries = []
        @worker_resource
        def client():
            tries.append(1)
            raise ConnectionError("nobody answers")
            yield
        def f(*given):
            client()
"""


@pytest.mark.parametrize(
    "verb", ['process: {function: "typed:f", by: [k], schema: "seen STRING"}', 'apply: {function: "typed:f"}']
)
@pytest.mark.parametrize("aside", ["", ", onError: DeadLetter, deadLetter: dead"])
def test_rows_are_not_put_aside_for_a_lost_client(verb: str, aside: str) -> None:
    text = APP.replace('process: {function: "typed:f", by: [k], schema: "seen STRING"}', verb + aside)
    text = text[: text.index("        from tests")] + LOST
    with TestDriver(text) as driver:
        driver.feed("a", [{"k": "x", "n": number, "ts": driver.now} for number in range(8)])
        with pytest.raises(
            UserActionError,
            match=r"(?s)client could not be set up: ConnectionError: nobody answers.*raise Conn.*no row is put aside",
        ):
            driver.run()
        assert len(sys.modules["typed"].tries) <= 2, "a server that is away is not asked for each row"
        sys.modules["typed"].tries.clear()
        assert driver.rows("dead") == []
