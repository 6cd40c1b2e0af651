"""Why: what an object says an app is, or what is wrong with it. Must not read anything but the tree."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.spec.app_part import StreamApp
from holdfast.spec.fingerprint import fingerprint
from holdfast.spec.parse import SpecInvalidError, parse_app

_SHOWN_ERRORS = 10


@dataclass(frozen=True, slots=True)
class ParsedSpec:
    """What an object says an app is."""

    app: StreamApp | None
    """None: it is invalid."""
    fingerprint: str | None
    wrong: str = ""
    """What is invalid about it."""


def read_spec(tree: Mapping[str, Any]) -> ParsedSpec:
    """What this object says, or what is wrong with it."""
    try:
        app = parse_app({name: tree[name] for name in tree if name != "status"})
    except SpecInvalidError as error:
        return ParsedSpec(None, None, "; ".join(str(one) for one in error.errors[:_SHOWN_ERRORS]))
    return ParsedSpec(app, fingerprint(app.spec))
