"""Why: whether a running attempt has the spec it should have, told by one short text.

Only what costs at least a restart counts, and defaults count like values: a field that is applied while the app runs
does not change the fingerprint, nor does writing a default down. Must not know which attempt runs what.
"""

import hashlib
import json
from typing import Any

from pydantic import BaseModel

from holdfast.spec.app import AppSpec
from holdfast.spec.change import Change
from holdfast.spec.fields import change_of


def fingerprint(spec: AppSpec) -> str:
    """Equal for specs between which nothing has to be restarted."""
    text = json.dumps(_kept(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _kept(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {
            name: _kept(one)
            for name, field in type(value).model_fields.items()
            if isinstance(one := getattr(value, name), BaseModel) or change_of(field) is not Change.LIVE
        }
    if isinstance(value, tuple):
        # Named objects may stand in any order.
        kept = [_kept(one) for one in value]
        named = bool(kept) and all(isinstance(one, dict) and "name" in one for one in kept)
        return sorted(kept, key=lambda one: str(one["name"])) if named else kept
    return value
