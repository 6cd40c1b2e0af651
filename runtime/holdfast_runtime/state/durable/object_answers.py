"""What an object store answered instead of what was asked for, and asking again where an answer was damaged.

The client asks again by itself where a connection broke, the store was busy or a gateway failed. It gives up at once
where an answer came whole but can't be right: a body of another length or checksum, or one that can't be parsed. The
next answer to such a question is usually good. Both clients hand their findings on in one text only, in which error
code, status and operation have a fixed form; all that is decided here is decided by these three. The client for writes
never asks again: only who knows the content can tell a write whose answer was lost. Must not repeat a write whose
content is gone.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import pyarrow as pa

from holdfast_runtime.state.errors import CheckpointUnavailableError, DeleteRefusedError

WAITS = (0.1, 0.4, 1.6)
"""Seconds before each further question after a damaged answer."""
_AWAY_WAITS = (0.1, 0.4, 1.6, 4.0, 8.0)
"""Seconds before each further question to a store that gives no answer."""
CLIENT_TRIES = len(_AWAY_WAITS) + 1
"""About fifteen seconds in total, doubling the wait: a store that throttles or restarts should not end the app."""
_CREDENTIALS = (
    "see that the bucket is there, that endpoint and region are right, and that the credentials of this pod allow to "
    "list, read, write and delete there (docs/state.md#object-stores)"
)
_SAID = re.compile(r"AWS Error ([A-Z_0-9]+)(?: \(HTTP status (-?\d+)\))? during (\w+) operation")
_AWAY = frozenset(
    [
        "NETWORK_CONNECTION",
        "INTERNAL_FAILURE",
        "SERVICE_UNAVAILABLE",
        "SLOW_DOWN",
        "THROTTLING",
        "REQUEST_TIMEOUT",
        "BANDWIDTH_LIMIT_EXCEEDED",
        # As the store itself writes them.
        "RequestTimeout",
        "SlowDown",
        "CONFLICT",
    ]
)
_AWAY_STATUS = (408, 409, 429)
_UNPARSED, _MISMATCH = "UNKNOWN", "VALIDATION"
_GATEWAY = 500
"""From this status on, the server or a gateway before it has failed."""
_GOOD = range(200, 300)
NO_CREDENTIALS = "NO_CREDENTIALS"

Answer = TypeVar("Answer")


class ShortAnswerError(OSError):
    """An answer has fewer bytes than the object."""


@dataclass(frozen=True, slots=True)
class ClientFinding:
    """What the client says of a failure."""

    code: str
    status: int | None
    operation: str


class StoreAnswerError(OSError):
    """An answer to the client for writes, other than what was asked for."""

    def __init__(self, finding: ClientFinding, reason: str) -> None:
        status = "" if finding.status is None else f" (HTTP status {finding.status})"
        super().__init__(f"{finding.code}{status} during {finding.operation}: {reason}")
        self.finding = finding


class FailureKind(Enum):
    """Why there is no good answer."""

    REFUSED = "refused"
    """The store understood and said no: a wrong bucket, region, credential or right."""
    DELETE_REFUSED = "delete refused"
    """It knows these credentials, but they may not delete."""
    DAMAGED = "damaged"
    AWAY = "away"
    """The client has asked until its patience ended."""
    NO_CREDENTIALS = "no credentials"
    """Whoever gives credentials to this pod does not."""
    GONE = "gone"
    OTHER = "other"
    """Not the client's finding: what was to be written could not be read, for example."""


def finding_in(text: str) -> ClientFinding | None:
    """Return the client's finding in the text of an error; None if the error is not the client's."""
    match = _SAID.search(text)
    return None if match is None else ClientFinding(match[1], None if match[2] is None else int(match[2]), match[3])


def kind_of(error: Exception) -> FailureKind:
    """Return why there is no good answer; `error`: of `pyarrow`, or of the client for writes."""
    if isinstance(error, FileNotFoundError):
        return FailureKind.GONE
    if isinstance(error, ShortAnswerError):
        return FailureKind.DAMAGED
    finding = error.finding if isinstance(error, StoreAnswerError) else finding_in(str(error))
    return FailureKind.OTHER if finding is None else _kind_of_finding(finding)


def _kind_of_finding(finding: ClientFinding) -> FailureKind:
    status = finding.status
    if finding.code == NO_CREDENTIALS:
        return FailureKind.NO_CREDENTIALS
    if finding.code in _AWAY or (status is not None and (status >= _GATEWAY or status in _AWAY_STATUS)):
        return FailureKind.AWAY
    if finding.code == "ACCESS_DENIED" and finding.operation.startswith("Delete"):
        return FailureKind.DELETE_REFUSED
    # Without a status, or with -1, the client could make nothing of the answer.
    unread = finding.code == _UNPARSED and (status is None or status < 0 or status in _GOOD)
    return FailureKind.DAMAGED if unread or finding.code == _MISMATCH else FailureKind.REFUSED


def asked_again(ask: Callable[[], Answer], wait: Callable[[float], None] = time.sleep) -> Answer:
    """Ask, and ask again where the answer is damaged; raise what went wrong in the end."""
    for seconds in WAITS:
        try:
            return ask()
        except (OSError, pa.ArrowException) as error:
            if kind_of(error) is not FailureKind.DAMAGED:
                raise
        wait(seconds)
    return ask()


def asked_until_answered(ask: Callable[[], Answer], wait: Callable[[float], None] = time.sleep) -> Answer:
    """Ask the client for writes, and ask again where the store was away; raise what went wrong in the end."""
    for seconds in _AWAY_WAITS:
        try:
            return ask()
        except StoreAnswerError as error:
            if kind_of(error) not in (FailureKind.DAMAGED, FailureKind.AWAY, FailureKind.NO_CREDENTIALS):
                raise
        wait(seconds)
    return ask()


def answer_error(path: str, error: Exception) -> CheckpointUnavailableError:
    """Return the error to raise where a storage operation on this object has failed in the end."""
    match kind_of(error):
        case FailureKind.GONE:
            message = f"{path} is gone from the checkpoint location: put it back from a copy"
        case FailureKind.DAMAGED:
            message = (
                f"the object store's answer about {path} is damaged, each time it was asked for ({error}): see "
                f"whether something between this pod and the store cuts or changes answers (a proxy, a gateway); if "
                f"nothing does, the object itself is damaged: put it back from a copy"
            )
        case FailureKind.AWAY:
            message = (
                f"the object store gives no answer about {path}, asked {CLIENT_TRIES} times ({error}): see that it "
                f"runs, that the endpoint is right, and that this pod reaches it"
            )
        case FailureKind.NO_CREDENTIALS:
            message = (
                f"this pod gets no credentials for {path} ({error}): give it AWS_ACCESS_KEY_ID and "
                f"AWS_SECRET_ACCESS_KEY from a Secret, or a role (docs/state.md#object-stores)"
            )
        case FailureKind.DELETE_REFUSED:
            return DeleteRefusedError(
                f"the credentials of this pod may not delete {path} ({error}): allow to delete there (on Amazon "
                f"s3:DeleteObject, docs/state.md#object-stores)"
            )
        case FailureKind.OTHER:
            message = (
                f"{path} can't be read or written ({error}): the error says what is in the way; how object stores are "
                f"reached is in docs/state.md#object-stores"
            )
        case FailureKind.REFUSED:
            message = f"the checkpoint location refuses {path} ({error}): {_CREDENTIALS}"
    return CheckpointUnavailableError(message)
