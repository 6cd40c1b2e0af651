"""Why: whether a running attempt has the spec it should have, told by one short text.

Only what costs at least a restart counts, and only what is not as it is by default: a field that is applied while the
app runs does not change the fingerprint, nor does writing a default down, nor a release that brings new fields. Must
not know which attempt runs what.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from holdfast.spec.app_part import AppSpec
from holdfast.spec.fields import ChangeCost
from holdfast.spec.fields_part import change_of


def fingerprint(spec: AppSpec) -> str:
    """Equal for specs between which nothing has to be restarted."""
    text = json.dumps(_kept(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _kept(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return dict(_fields(value))
    if isinstance(value, tuple):
        # Named objects may stand in any order.
        kept = [_kept(one) for one in value]
        named = bool(kept) and all(isinstance(one, dict) and "name" in one for one in kept)
        return sorted(kept, key=lambda one: str(one["name"])) if named else kept
    return value


def _fields(model: BaseModel) -> Iterator[tuple[str, Any]]:
    for name, field in type(model).model_fields.items():
        one, usual = getattr(model, name), field.get_default(call_default_factory=True)
        if isinstance(one, BaseModel):
            kept = _kept(one)
            # `log: {}` says something, `restart: {}` does not.
            if kept or usual is None:
                yield name, kept
        elif one != usual and change_of(field) is not ChangeCost.LIVE:
            yield name, _kept(one)
