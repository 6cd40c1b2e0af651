"""Why: a spec is read once per generation, though many looks rest on it. Must not read anything but the tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.spec.app import StreamApp
from holdfast.spec.fingerprint import fingerprint
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast_operator.remembered import Remembered

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

    _last: Remembered[str, Spec] = field(default_factory=Remembered)
    """By uid."""

    def of(self, tree: Mapping[str, Any]) -> Spec:
        """What this object says."""
        uid, generation = tree["metadata"]["uid"], tree["metadata"].get("generation")
        known = self._last.get(uid, generation)
        return self._last.put(uid, generation, read_spec(tree)) if known is None else known


def read_spec(tree: Mapping[str, Any]) -> Spec:
    """What this object says, or what is wrong with it."""
    try:
        app = parse_app({name: tree[name] for name in tree if name != "status"})
    except SpecInvalidError as error:
        return Spec(None, None, "; ".join(str(one) for one in error.errors[:_SHOWN_ERRORS]))
    return Spec(app, fingerprint(app.spec))
