"""The state of tasks after the last batch, in the words of a test: by step and key, with the columns of its rows.

Must not decide where state is read: `inspection` does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from holdfast.control.bookkeeping import Bookkeeping
from holdfast.spec.kept_state import kept_rows, state_name
from holdfast.spec.steps import Process, Step
from holdfast.spec.values import millis
from holdfast.suggest import did_you_mean
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.inspection.task_state import StateSource, opened_state
from holdfast_runtime.segments.graph import GraphNode
from holdfast_runtime.slot.program import Program, clock_plan
from holdfast_runtime.state.sorted.view import LayeredView
from holdfast_runtime.state.store.offline import OfflineStore
from holdfast_runtime.state.store.task_store import CONTROL
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.key_state import BatchMoment, KeyState
from holdfast_runtime.steps.keyed.key_table import KeyTable, row_key
from holdfast_runtime.streams.codecs.codec import listed
from holdfast_runtime.streams.record_keys import key_bytes
from holdfast_runtime.testing.failures import TestMisuseError

ALL_KEYS: Any = object()
"""Asks for rows of all keys: None is a key."""


class TaskStates:
    """The state of all tasks after the batch that ended at `done`."""

    def __init__(self, program: Program, done: Offsets) -> None:
        self._program, self._done = program, done

    def key(self, step: str, key: Any, now: int) -> KeyState | None:
        """Return the state that a step keeps for a key; None if there is none."""
        node, keeper, verb = self._stateful(step)
        schema = self._program.compiled.nodes[node.inputs[0]].schema
        key_row = _key_row(step, pa.schema([schema.field(name) for name in verb.by]), key)
        table_key = row_key(key_bytes(key_row, verb.by)[0].as_py())
        skew = self._done.skew
        moment = BatchMoment(StepClock(now + skew, None, skew=skew), None if verb.ttl is None else millis(verb.ttl))
        for task in self._done.turns:
            with self._store(task) as store:
                (state,) = KeyTable(state_name(keeper), store, moment).load([table_key]).states
                if state or state.timers:
                    return state
        return None

    def rows(self, step: str, key: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows that a step keeps in layers, of one key if it is not `ALL_KEYS`; task by task."""
        table = self._row_table(step)
        for task in self._done.turns:
            with self._store(task) as store:
                view = LayeredView.of(store.table(table))
                if view is None:
                    continue
                key_row = None if key is ALL_KEYS else _key_row(step, view.key, key)
                for _, rows in view.rows(key_row):
                    yield from rows.to_pylist()

    def tables(self, task: str) -> dict[str, dict[bytes, bytes]]:
        """Return all state of a task as table -> key -> value, in bytes, for comparisons."""
        with self._store(task) as store:
            return {size.name: dict(store.rows(size.name)) for size in store.tables()}

    def stream_watermark(self, stream: str, now: int) -> int | None:
        """Return the lowest watermark of a stream over the tasks that read it; None while one is unknown."""
        marks = []
        for task in filter(self._done.turns.__contains__, self._program.tasks):
            inputs = clock_plan(self._program, task).inputs
            if any(partition.stream == stream for partition in inputs.partitions):
                with self._store(task) as store:
                    entries = dict(store.rows(CONTROL))
                book = Bookkeeping.restored(entries, inputs, now)
                marks.append(book.watermarks.streams().get(stream))
        known_marks = [mark for mark in marks if mark is not None]
        return min(known_marks) if known_marks and len(known_marks) == len(marks) else None

    def _stateful(self, step: str) -> tuple[GraphNode, Step, Process]:
        in_rows = self._row_tables()
        nodes = {node.name: node for node in self._program.compiled.nodes if node.verb == "process"}
        nodes = {name: node for name, node in nodes.items() if name not in in_rows}
        if step not in nodes:
            message = f"there is no process step {step}{did_you_mean(step, nodes)}"
            if step in in_rows:
                message = f"step {step} keeps rows, not a value for each key: kept_rows({step!r}, key) returns them"
            raise TestMisuseError(message)
        node = nodes[step]
        assert node.step is not None  # noqa: S101 - its verb says so
        assert node.step.process is not None  # noqa: S101
        return node, node.step, node.step.process

    def _row_table(self, step: str) -> str:
        tables = self._row_tables()
        if step not in tables:
            message = (
                f"there is no table, deduplicate, aggregate, process of batches or side of a join {step}"
                f"{did_you_mean(step, tables)}"
            )
            raise TestMisuseError(message)
        return tables[step]

    def _row_tables(self) -> dict[str, str]:
        return kept_rows(self._program.spec)

    @contextmanager
    def _store(self, task: str) -> Iterator[OfflineStore]:
        state, identity = self._program.state, self._program.identity(task)
        source = StateSource(
            state.copy(identity, lambda _: None), state.store_directory(identity), batch=self._done.turns[task]
        )
        with opened_state(source) as opened:
            yield opened.store


def _key_row(step: str, columns: pa.Schema, key: Any) -> pa.RecordBatch:
    """Return a key as a row; a key of several columns is a tuple."""
    try:
        values = [key] if len(columns) == 1 else list(key)
        return pa.RecordBatch.from_arrays(
            [pa.array([value], field.type) for value, field in zip(values, columns, strict=True)], schema=columns
        )
    except (pa.ArrowException, ValueError, TypeError) as error:
        message = f"{key!r} is no key of step {step}, which keeps state by ({listed(columns)}): {error}"
        raise TestMisuseError(message) from error
