"""Why: a spec is read once per generation, though many looks rest on it. Must not read anything but the tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.spec.app import StreamApp
from holdfast.spec.fingerprint import fingerprint
from holdfast.spec.parse import SpecInvalidError, parse_app

_REMEMBERED = 256
"""An app that is looked at is often looked at again at once; more would take too much memory."""
_SHOWN_ERRORS = 10


@dataclass(frozen=True, slots=True)
class Spec:
    """What an object says an app is."""

    app: StreamApp | None
    """None: it is invalid."""
    fingerprint: str | None
    wrong: str = ""
    """What is invalid about it."""


@dataclass(frozen=True, slots=True)
class Specs:
    """Those read last."""

    _last: dict[str, tuple[object, Spec]] = field(default_factory=dict)

    def of(self, tree: Mapping[str, Any]) -> Spec:
        """What this object says."""
        uid, generation = tree["metadata"]["uid"], tree["metadata"].get("generation")
        known = self._last.pop(uid, None)
        if known is None or known[0] != generation:
            known = generation, read_spec(tree)
        self._last[uid] = known
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]
        return known[1]


def read_spec(tree: Mapping[str, Any]) -> Spec:
    """What this object says, or what is wrong with it."""
    try:
        app = parse_app({name: tree[name] for name in tree if name != "status"})
    except SpecInvalidError as error:
        return Spec(None, None, "; ".join(str(one) for one in error.errors[:_SHOWN_ERRORS]))
    return Spec(app, fingerprint(app.spec))
