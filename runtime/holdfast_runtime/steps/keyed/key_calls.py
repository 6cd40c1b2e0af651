"""Calls of a `process` function one key at a time, where a failing call changes nothing but becomes dead letters.

Used for a batch in which some call has failed. A key whose call fails gets its rows again, one by one. Each failing row
is put aside and leaves the key's state and timers as they were before it. Must not touch tables.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from holdfast_runtime.steps.failures import (
    FailedRow,
    FunctionResultError,
    UserFunctionError,
    no_row_is_to_blame,
    reason,
)
from holdfast_runtime.steps.keyed.key_state import KeyState, Timers
from holdfast_runtime.steps.keyed.state_values import supported, unsupported
from holdfast_runtime.steps.row_dicts import RowFault, result_rows, short

Rows = list[dict[str, Any]]
Function = Callable[[Any, Rows, KeyState], Iterable[dict[str, Any]] | None]


@dataclass(slots=True)
class KeyCalls:
    """The calls of one batch."""

    step: str
    path: str
    """The function as the spec names it."""
    function: Function
    out: pa.Schema
    failed: list[FailedRow] = field(default_factory=list)

    def rows(
        self, key: Any, record_key: bytes | None, again: Callable[[], Rows], indices: list[int], state: KeyState
    ) -> Rows:
        """Return what the function gives for rows of a key; `again` builds them anew, `indices` are theirs."""
        output, why = self._tried(key, again(), state)
        if why is None:
            return output
        rows = again()
        if len(rows) == 1:
            self.failed.append(FailedRow(indices[0], why, key=record_key))
            return []
        outputs: Rows = []
        for index, row in zip(indices, rows, strict=True):
            output, why = self._tried(key, [row], state)
            outputs += output
            if why is not None:
                self.failed.append(FailedRow(index, why, key=record_key))
        return outputs

    def timers(self, key: Any, record_key: bytes | None, state: KeyState) -> Rows:
        """Return the function's result for the fired timers; if the call fails, they do not fire again."""
        output, why = self._tried(key, [], state)
        if why is not None:
            self.failed.append(FailedRow(None, why, key=record_key))
        return output

    def _tried(self, key: Any, rows: Rows, state: KeyState) -> tuple[Rows, str | None]:
        """Return the result of a call, or why it failed; after a failure the state is as before."""
        values, timers = deepcopy(dict(state)), _copied(state)
        try:
            return self._called(key, rows, state), None
        except Exception as error:
            if no_row_is_to_blame(error):
                raise
            state.clear()
            state.update(values)
            state._timers = timers  # noqa: SLF001 - hidden from users, not from steps
            return [], reason(error)

    def _called(self, key: Any, rows: Rows, state: KeyState) -> Rows:
        try:
            output = list(self.function(key, rows, state) or ())
        except Exception as error:
            raise UserFunctionError.raised(error, self.step, self.path, f" for key {short(key)}") from error
        converted = result_rows(output, self.out)
        if isinstance(converted, RowFault):
            raise FunctionResultError(converted.message)
        values = dict(state)
        if not supported(values):
            fault = unsupported(values)
            path, why = ("", "") if fault is None else (fault.path, fault.why)
            message = f"in the state, {path} {why}"
            raise FunctionResultError(message)
        return output


def _copied(state: KeyState) -> Timers | None:
    timers = state._timers  # noqa: SLF001 - as above
    return timers and (dict(timers[0]), dict(timers[1]))
