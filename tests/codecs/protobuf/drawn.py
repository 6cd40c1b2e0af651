"""Random messages: their schema as a text and as google.protobuf's descriptor, and values of them."""

from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2
from hypothesis import strategies as st

from holdfast_runtime.streams.codecs.arrow_types import FIRST_MICROS, LAST_MICROS
from tests.codecs.protobuf.messages import FIELD, HEAD, PAIR, TIMESTAMP, WRAPPERS, google_class
from tests.codecs.schemas import TEXT

INTS = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "sint32": (-(1 << 31), (1 << 31) - 1),
    "sfixed32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "sint64": (-(1 << 63), (1 << 63) - 1),
    "sfixed64": (-(1 << 63), (1 << 63) - 1),
    "uint32": (0, (1 << 32) - 1),
    "fixed32": (0, (1 << 32) - 1),
    "uint64": (0, (1 << 64) - 1),
    "fixed64": (0, (1 << 64) - 1),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.sampled_from([0, 1, *bounds]) | st.integers(*bounds) for name, bounds in INTS.items()},
    "bool": st.booleans(),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": TEXT,
    "bytes": st.binary(max_size=9),
    "Kind": st.sampled_from([0, 1, -2, 7]),
}
KIND = "enum Kind { NEW = 0; OLD = 1; LOST = -2; LATE = 7; }"
KEYS = [*INTS, "bool", "string"]
_LABELS = {"": FIELD.LABEL_OPTIONAL, "optional ": FIELD.LABEL_OPTIONAL, "repeated ": FIELD.LABEL_REPEATED}


class Case(NamedTuple):
    """A schema as text, google.protobuf's class of it, and messages of this class."""

    text: str
    made: Any
    messages: list[Any]


class _Draft:
    """A message that is drawn."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.file = descriptor_pb2.FileDescriptorProto(name="drawn.proto", syntax="proto3")
        self.file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
        kind = self.file.enum_type.add(name="Kind")
        for name, number in (("NEW", 0), ("OLD", 1), ("LOST", -2), ("LATE", 7)):
            kind.value.add(name=name, number=number)
        self.count = 0

    def message(self, name: str, levels: int) -> str:
        """Add a message; return its text."""
        inner = []
        if levels:
            inner = [f"{name}In{at}" for at in range(self.draw(st.integers(0, 2)))]
        body = "".join(self.message(other, levels - 1) for other in inner)
        made = self.file.message_type.add(name=name)
        types = [*VALUES, *inner, *WRAPPERS, TIMESTAMP]
        numbers = self.draw(
            st.lists(st.integers(1, 40) | st.integers(1, 70_000).filter(_is_free), max_size=6, unique=True)
        )
        choices = [number for number in numbers if self.draw(st.integers(0, 5)) == 0]
        lines = [self._field(made, number, types, None) for number in numbers if number not in choices]
        if choices:
            made.oneof_decl.add(name="choice")
            members = "".join(self._field(made, number, types, 0) for number in choices)
            lines.append(f"oneof choice {{ {members} }}")
        for field in made.field:  # after real ones
            if field.proto3_optional:
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field.name}")
        return f"{body}\nmessage {name} {{ {' '.join(lines)} }}"

    def _field(self, made: Any, number: int, types: list[str], choice: int | None) -> str:
        self.count += 1
        name, kind = f"f{self.count}", self.draw(st.sampled_from(types))
        if choice is None and self.draw(st.integers(0, 6)) == 0:
            return self._map(made, name, number, kind)
        label = "" if choice is not None else self.draw(st.sampled_from(["", "optional ", "repeated "]))
        field = made.field.add(name=name, number=number, label=_LABELS[label], **_type(kind))
        if choice is not None:
            field.oneof_index = choice
        field.proto3_optional = label == "optional "
        options = ""
        if label == "repeated " and kind in VALUES and kind not in ("string", "bytes") and self.draw(st.booleans()):
            field.options.packed = self.draw(st.booleans())
            options = f" [packed = {str(field.options.packed).lower()}]"
        return f"{label}{kind} {name} = {number}{options};"

    def _map(self, made: Any, name: str, number: int, kind: str) -> str:
        key, pair = self.draw(st.sampled_from(KEYS)), f"{name.capitalize()}{PAIR}"
        nested = made.nested_type.add(name=pair)
        nested.options.map_entry = True
        nested.field.add(name="key", number=1, label=FIELD.LABEL_OPTIONAL, **_type(key))
        nested.field.add(name="value", number=2, label=FIELD.LABEL_OPTIONAL, **_type(kind))
        made.field.add(
            name=name,
            number=number,
            label=FIELD.LABEL_REPEATED,
            type=FIELD.TYPE_MESSAGE,
            type_name=f".{made.name}.{pair}",
        )
        return f"map<{key}, {kind}> {name} = {number};"


def _is_free(number: int) -> bool:
    return not 19_000 <= number < 20_000


def _type(kind: str) -> dict[str, Any]:
    if kind == "Kind":
        return {"type": FIELD.TYPE_ENUM, "type_name": ".Kind"}
    if kind in VALUES:
        return {"type": getattr(FIELD, f"TYPE_{kind.upper()}")}
    return {"type": FIELD.TYPE_MESSAGE, "type_name": f".{kind}"}


def _fill(draw: Any, message: Any) -> None:
    for field in message.DESCRIPTOR.fields:
        if draw(st.booleans()):
            continue
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(draw(st.integers(0, 3))):
                _add_pair(draw, value, field)
        elif field.is_repeated:
            for _ in range(draw(st.integers(0, 3))):
                if field.message_type is not None:
                    _fill_message(draw, value.add())
                else:
                    value.append(draw(_values(field)))
        elif field.message_type is not None:
            value.SetInParent()
            _fill_message(draw, value)
        else:
            setattr(message, field.name, draw(_values(field)))


def _add_pair(draw: Any, pairs: Any, field: Any) -> None:
    key, item = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    name = draw(_values(key))
    if item.message_type is not None:
        _fill_message(draw, pairs[name])
    else:
        pairs[name] = draw(_values(item))


def _fill_message(draw: Any, message: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name == TIMESTAMP:
        micros = draw(st.integers(FIRST_MICROS, LAST_MICROS))
        message.seconds, message.nanos = micros // 10**6, micros % 10**6 * 1000
    elif name in WRAPPERS:
        message.value = draw(VALUES[WRAPPERS[name]])
    else:
        _fill(draw, message)


def _values(field: Any) -> st.SearchStrategy[Any]:
    return VALUES["Kind"] if field.enum_type is not None else VALUES[_NAMES[field.type]]


_NAMES = {getattr(FIELD, f"TYPE_{name.upper()}"): name for name in VALUES if name != "Kind"}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    draft = _Draft(draw)
    text = HEAD + KIND + draft.message("Root", 2)
    made = google_class(draft.file, "Root")
    messages = []
    for _ in range(draw(st.integers(1, 4))):
        messages.append(made())
        _fill(draw, messages[-1])
    return Case(text, made, messages)
