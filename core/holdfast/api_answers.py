"""What an answer of the Kubernetes API server means to whoever asked: an object, or an error by the way out.

Operator, driver and CLI have clients of their own, as they wait and trust differently; what they are told, they read
here. An answer quotes what users and webhooks wrote, so objects are bounded and a text is one line. A 404 about an
object is no error but says that there is none: only one about a kind comes to `api_error`. Must not call anybody.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.bounded_json import ObjectDepth, bounded_objects
from holdfast.errors import HoldfastError, RetrySoonError, UserActionError, WorldChangeError
from holdfast.one_line import one_line
from holdfast.trees import Tree, as_object, as_objects

WRONG, NOT_FOUND = 300, 404
"""The first status that is no success, and that of an object that does not exist."""
_SERVER = 500
_NAMESPACE_ENDS = "NamespaceTerminating"
_SHOWN = 500


class ApiConflictError(RetrySoonError):
    """Another writer was first, or an object of that name already exists."""


class ApiUnreachableError(RetrySoonError):
    """The API server did not answer, or can't right now."""


class ApiRefusedError(WorldChangeError):
    """The API server refused the request: rights, quota, admission, or an invalid field."""


class NotAllowedError(ApiRefusedError):
    """Whoever asks may not, and will not until somebody who runs the cluster or logs in has acted."""


class NamespaceEndsError(WorldChangeError):
    """Nothing can be made in this namespace any more, as it is being deleted."""


class _Refusal(NamedTuple):
    error: type[HoldfastError]
    text: str
    code: str = ""
    """By default the name of the error."""


_BUSY = _Refusal(ApiUnreachableError, "{who} can't answer now ({status}) to {right}: {why}")
_ENDS = _Refusal(NamespaceEndsError, "{right}: {why}")
_OTHER = _Refusal(ApiRefusedError, "{who} answered {status} to {right}: {why}")
_REFUSALS: Mapping[int, _Refusal] = {
    401: _Refusal(
        NotAllowedError,
        "{who} does not accept the credentials, they may have expired: log in again; those of a pod are renewed by its "
        "node ({why})",
        "CredentialsError",
    ),
    403: _Refusal(NotAllowedError, "{why}; ask whoever runs the cluster for {leave} to {right}", "RightMissingError"),
    404: _Refusal(
        UserActionError,
        "{who} knows no {kind}: Holdfast's CustomResourceDefinition is not installed there",
        "NotInstalledError",
    ),
    409: _Refusal(ApiConflictError, "{right}: {why}"),
    429: _BUSY,
}


def api_error(right: str, status: int, content: bytes, *, who: str = "the API server") -> HoldfastError:
    """Return the error that an answer stands for; `right` is what was asked, as RBAC calls it: `get pods/log`."""
    answer = object_in(content)
    refusal = _BUSY if status >= _SERVER else _REFUSALS.get(status, _OTHER)
    if issubclass(refusal.error, ApiRefusedError) and _namespace_ends(answer):
        refusal = _ENDS
    verb, kind = right.split()
    # What may not be made may also be too much, or not be as the cluster wants it; the answer says which.
    leave = "the right, the quota or an exception" if verb == "create" else "the right"
    why = one_line(answer.get("message") or content[:_SHOWN].decode(errors="replace"))
    text = refusal.text.format(who=who, status=status, right=right, kind=kind, leave=leave, why=why)
    return refusal.error(text, code=refusal.code)


def object_in(content: bytes, depth: ObjectDepth = ObjectDepth.OBJECT) -> Tree:
    """Return the object or list of an answer, without what is out of bounds; empty if it holds none."""
    try:
        tree = json.loads(bounded_objects(content, depth))
    except (ValueError, RecursionError):
        return {}
    return as_object(tree)


def _namespace_ends(answer: Tree) -> bool:
    causes = as_objects(as_object(answer.get("details")).get("causes"))
    return any(cause.get("reason") == _NAMESPACE_ENDS for cause in causes)
