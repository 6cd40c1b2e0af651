"""The questions about specs that worker processes answer, as functions of values.

Any exception that a spec causes is a fault of Holdfast and becomes an answer; only `MemoryError` is left to the worker.
Must not import code that talks to a cluster or a broker.
"""

import pickle
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.bounded_json import load
from holdfast.errors import PlanningFailedError, safely
from holdfast.spec.app import StreamApp
from holdfast_operator.decide.facts import Grounds, ParsedSpec, StartVerdict, read_spec
from holdfast_operator.examine.start_checks import judge
from holdfast_operator.manifests.pod_policy import PodPolicy

_LONGEST_TRACEBACK = 20_000


@dataclass(frozen=True, slots=True)
class AnswerFault:
    """An unexpected exception."""

    code: str
    """A code that is the same for the same fault."""
    traceback: str


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """The worker was killed before it could answer."""

    by: int
    """The signal's number; 0: the worker ended itself."""


@dataclass(frozen=True, slots=True)
class WorkerOutOfMemory:
    """The worker ran out of memory."""


def answered(question: bytes) -> bytes:
    """Return the pickled answer to a pickled question; raise nothing but `MemoryError`."""
    name, *arguments = pickle.loads(question)  # noqa: S301 - from the operator itself
    try:
        return safely(lambda: pickle.dumps(_ANSWERS[name](*arguments)))
    except PlanningFailedError as failed:
        if isinstance(failed.__cause__, MemoryError):
            raise failed.__cause__ from None
        told = "".join(traceback.format_exception(failed.__cause__))
        return pickle.dumps(AnswerFault(failed.code, told[-_LONGEST_TRACEBACK:]))


def _spec(tree: Mapping[str, Any]) -> ParsedSpec:
    return read_spec(tree)


def _told(text: str) -> ParsedSpec:
    """Parse the spec in an attempt's ConfigMap."""
    try:
        tree = load(text)
    except ValueError as error:
        return ParsedSpec(None, None, str(error))
    return read_spec(tree) if isinstance(tree, dict) else ParsedSpec(None, None, "it is no object")


def _verdict(app: StreamApp, grounds: Grounds, policy: PodPolicy) -> StartVerdict:
    """Return the verdict without the app, which the caller has."""
    return replace(judge(grounds, ParsedSpec(app, None), policy), app=None)


_ANSWERS: Mapping[str, Callable[..., Any]] = {"spec": _spec, "told": _told, "verdict": _verdict}
