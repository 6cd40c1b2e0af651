"""The location of an executor, from `spec.state.location`: executors with equal locations share a disk.

The template is parsed once and evaluated for every pod. With a wrong location, executors would look for state on a
disk they don't have, or share a disk they must not share. So nothing is guessed: every field that a template names
must exist. Must not talk to Kubernetes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NewType

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.suggest import did_you_mean

LocationId = NewType("LocationId", str)
"""A place whose disk all its processors share; only ever compared for equality."""

PLAIN_FIELDS = ("pod.name", "pod.uid", "pod.namespace", "node.name")
KEYED_FIELDS = ("pod.labels", "pod.annotations", "node.labels", "node.annotations")
"""Fields that take the key of a label or an annotation."""
_KINDS = ("Claim", "Node", "Pod")
_TEMPLATES = {"Node": "{node.name}", "Pod": "{pod.uid}"}
_FIELD = re.compile(r"\{([^{}]*)\}")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class LocationInvalidError(UserActionError):
    """A `spec.state.location` that gives no location for any pod."""


class LocationMissingError(UserActionError):
    """A pod or its node lacks what `spec.state.location` asks for."""


class PodNotScheduledError(WorldChangeError):
    """The location depends on the node, and the pod is on no node yet."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The fields of a node that a location may use."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The fields of a pod that a location may use."""

    name: str
    uid: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    claim: str | None = None
    """The volume claim that holds state."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One `{...}` of a template: `node.labels.rack` is the part `labels` of the node with the key `rack`."""

    owner: str
    part: str
    key: str | None


def check_location(text: str) -> None:
    """Raise `LocationInvalidError` if this is no valid `spec.state.location`; needs no pod."""
    if text != "Claim":
        _fields(_TEMPLATES.get(text, text))


def location_fields(text: str) -> frozenset[str]:
    """Return the fields of pod and node that a valid `spec.state.location` reads; of Claim none."""
    if text == "Claim":
        return frozenset()
    fields = _fields(_TEMPLATES.get(text, text))
    return frozenset(".".join(filter(None, (one.owner, one.part, one.key))) for one in fields)


def location_of(kind: str, pod: PodFacts, node: NodeFacts | None) -> LocationId:
    """Return the location of a pod under `spec.state.location: kind`; `node` is None while the pod is on no node."""
    if kind == "Claim":
        if not pod.claim:
            message = (
                f"pod {pod.name} mounts no volume claim for state, so Claim gives no location; "
                f"remove what replaces the volume in the pod template, or set spec.state.location to Node or Pod"
            )
            raise LocationMissingError(message)
        return LocationId(pod.claim)
    template = _TEMPLATES.get(kind, kind)
    values = iter([_value(one, kind, pod, node) for one in _fields(template)])
    return LocationId(_FIELD.sub(lambda _: next(values), template))


def _value(location_field: _Field, kind: str, pod: PodFacts, node: NodeFacts | None) -> str:
    if location_field.owner == "node" and node is None:
        message = f"pod {pod.name} is on no node yet, so {kind} gives no location; wait until it is scheduled"
        raise PodNotScheduledError(message)
    facts = pod if location_field.owner == "pod" else node
    fact = getattr(facts, location_field.part)
    if location_field.key is None:
        return str(fact)
    value = fact.get(location_field.key)
    if value:
        return str(value)
    owner = "the pod" if location_field.owner == "pod" else f"its node {node.name}" if node else "its node"
    what = f"{location_field.part.removesuffix('s')} {location_field.key}"
    lacks = f"has an empty {what}" if value == "" else f"has no {what}{did_you_mean(location_field.key, fact)}"
    message = (
        f"pod {pod.name}: {kind} gives no location, because {owner} {lacks}; "
        f"set the {what} on {owner}, or change spec.state.location"
    )
    raise LocationMissingError(message)


@lru_cache
def _fields(template: str) -> tuple[_Field, ...]:
    names = _FIELD.findall(template)
    if (rest := _FIELD.sub("", template)) and ("{" in rest or "}" in rest):
        message = f"spec.state.location {template!r} has a brace without its partner; write e.g. {{node.name}}"
        raise LocationInvalidError(message)
    if not names:
        message = (
            f"spec.state.location {template!r} would give all executors one location{did_you_mean(template, _KINDS)}; "
            f"write Claim, Node, Pod or a template such as {{node.labels.rack}}/{{node.name}}"
        )
        raise LocationInvalidError(message)
    return tuple(_field(name, template) for name in names)


def _field(name: str, template: str) -> _Field:
    owner, _, rest = name.partition(".")
    part, dot, key = rest.partition(".")
    if name in PLAIN_FIELDS:
        return _Field(owner, part, None)
    if f"{owner}.{part}" in KEYED_FIELDS:
        if _KEY.fullmatch(key):
            return _Field(owner, part, key)
        wrong = f"{key!r} can't be a key of {part}" if dot else f"it does not say which of the {part}"
        message = (
            f"spec.state.location {template!r}: {{{name}}} is no field, {wrong}; write e.g. {{{owner}.{part}.rack}}"
        )
        raise LocationInvalidError(message)
    fields = (*PLAIN_FIELDS, *(f"{keyed}.{key or 'KEY'}" for keyed in KEYED_FIELDS))
    message = f"spec.state.location {template!r}: there is no field {{{name}}}{did_you_mean(name, fields)}"
    raise LocationInvalidError(message)
