"""The reader of `.proto` texts, proto2 and proto3, with what they import.

Registries hand out schemas as such texts. What says nothing of the bytes of messages is skipped: options, services,
reserved names, extensions. Must not read files: all texts are given, and Google's own are in `well_known`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from holdfast.planning.types.protobuf.schema import (
    SCALARS,
    Presence,
    ProtoEnum,
    ProtoField,
    ProtoMessage,
    ProtoSchema,
    refuse,
)
from holdfast.planning.types.protobuf.well_known import WELL_KNOWN
from holdfast.planning.types.protobuf.words import Word, words_of

_MOST_LEVELS = 32
_MOST_NUMBER = (1 << 29) - 1
_OWN_NUMBERS = range(19000, 20000)
_KEYS = frozenset(SCALARS) - {"float", "double", "bytes"}
_SKIPPED = ("option", "reserved", "extensions", "extend", "service", "import", "package")


def parse_proto(text: str, referred: Iterable[tuple[str, str]] = (), message: str | None = None) -> ProtoSchema:
    """Return the schema in this text; `referred`: names and texts of files that it imports, and that these do.

    `message`: the full name of the one that records are; by default the first. Raise `ExpressionError` if it is none.
    """
    texts = {**WELL_KNOWN, **dict(referred)}
    first = _FileReader(text)
    files, imported = [first], list(first.imports)
    known = set(imported)
    while imported:
        name = imported.pop()
        if name not in texts:
            refuse(
                f"the protobuf schema imports {name}, which is not there; write its messages into the schema, or "
                "register it and refer to it"
            )
        files.append(_FileReader(texts[name]))
        imported += [other for other in files[-1].imports if other not in known]
        known.update(files[-1].imports)
    messages = {made.name: made for file in files for made in file.messages}
    enums = {made.name: made for file in files for made in file.enums}
    resolved = {name: _resolved(made, messages, enums) for name, made in messages.items()}
    if not first.places:
        refuse("the protobuf schema has no message")
    return ProtoSchema(resolved, enums, first.places, first.messages[0].name, declared=False).chosen(message)


def imports_of(text: str) -> tuple[str, ...]:
    """Return the names of the files that a text imports, but for Google's own; raise `ExpressionError`."""
    return tuple(name for name in _FileReader(text).imports if name not in WELL_KNOWN)


def _resolved(
    message: ProtoMessage, messages: Mapping[str, ProtoMessage], enums: Mapping[str, ProtoEnum]
) -> ProtoMessage:
    """Return a message whose fields have the full names of their types."""
    fields = []
    for known in message.fields:
        name = known.type if known.type in SCALARS else _full_name(known, message, messages.keys() | enums.keys())
        presence, packed = known.presence, known.packed
        if presence is Presence.IMPLICIT and name in messages:
            presence = Presence.OPTIONAL
        if name in ("string", "bytes") or name in messages:
            packed = False
        fields.append(replace(known, type=name, presence=presence, packed=packed))
    return ProtoMessage(message.name, tuple(fields))


def _full_name(known: ProtoField, message: ProtoMessage, names: Iterable[str]) -> str:
    if known.type.startswith("."):
        candidates = [known.type[1:]]
    else:
        scopes = message.name.split(".")
        candidates = [".".join([*scopes[:size], known.type]) for size in range(len(scopes), -1, -1)]
    full_name = next((candidate for candidate in candidates if candidate in names), None)
    if full_name is None:
        refuse(f"field {known.name} of message {message.name} has the type {known.type}, which is not there")
    return full_name


@dataclass(slots=True)
class _Message:
    """A message while it is read."""

    name: str
    fields: list[ProtoField]
    inner: int = 0
    """How many messages stand in it."""


class _FileReader:
    """Reads one text: types of fields are names as they are written."""

    def __init__(self, text: str) -> None:
        self._words = list(words_of(text))
        self._at = 0
        self._proto3 = False
        self._package = ""
        self.imports: list[str] = []
        self.messages: list[ProtoMessage] = []
        self.enums: list[ProtoEnum] = []
        self.places: dict[tuple[int, ...], str] = {}
        self._file()
        self.messages.sort(
            key=lambda made: next((p for p, name in self.places.items() if name == made.name), (1 << 30,))
        )

    def _file(self) -> None:
        count = 0
        while (word := self._word()).kind != "end":
            if word.text == ";":
                continue
            if word.text in ("syntax", "edition"):
                self._expect("=")
                value = self._word()
                if word.text == "edition" or value.text[1:-1] not in ("proto2", "proto3"):
                    refuse(f"the protobuf schema is of {word.text} {value}; proto2 and proto3 can be read")
                self._proto3 = value.text[1:-1] == "proto3"
                self._expect(";")
            elif word.text == "import":
                modifier = self._word()
                name = modifier if modifier.kind == "text" else self._word()
                self.imports.append(name.text[1:-1])
                self._expect(";")
            elif word.text == "package":
                self._package = self._type_name(self._word())
                self._expect(";")
            elif word.text == "message":
                self._message(self._package, (count,))
                count += 1
            elif word.text == "enum":
                self._enum(self._package)
            elif word.text in ("option", "service", "extend"):
                self._skip()
            else:
                self._unexpected(word, "a message")

    def _message(self, scope: str, place: tuple[int, ...]) -> None:
        message = _Message(f"{scope}.{self._name()}".lstrip("."), [])
        if len(place) > _MOST_LEVELS:
            refuse(f"the protobuf schema has messages inside of each other on more than {_MOST_LEVELS} levels")
        self._expect("{")
        self.places[place] = message.name
        self._body(message, place, "")
        if any(known.key for known in message.fields):  # some clients count a map as a message inside, some don't
            inside = [other for other in self.places if len(other) > len(place) and other[: len(place)] == place]
            for other in inside:
                del self.places[other]
        self._check(message)
        self.messages.append(ProtoMessage(message.name, tuple(message.fields)))

    def _body(self, message: _Message, place: tuple[int, ...], choice: str) -> None:
        """Read what is in a message, or in a `oneof` of it, to the closing brace."""
        while (word := self._word()).text != "}":
            if word.text == ";":
                continue
            following = self._words[self._at]
            is_field = following.text in (".", "=")  # a field whose type or name is such a word
            if word.text == "message" and not is_field:
                self._message(message.name, (*place, message.inner))
                message.inner += 1
            elif word.text == "enum" and not is_field:
                self._enum(message.name)
            elif word.text == "oneof" and not is_field:
                name = self._name()
                self._expect("{")
                self._body(message, place, name)
            elif word.text in _SKIPPED and not is_field:
                self._skip()
            elif word.text == "map" and following.text == "<":
                message.fields.append(self._map())
            else:
                message.fields.append(self._field(word, message, choice))

    def _map(self) -> ProtoField:
        self._expect("<")
        key = self._word()
        if key.text not in _KEYS:
            self._unexpected(key, "the type of a map's keys")
        self._expect(",")
        value = self._type_name(self._word())
        self._expect(">")
        name, number, _ = self._rest_of_field()
        return ProtoField(name, number, value, Presence.REPEATED, key=key.text)

    def _field(self, word: Word, message: _Message, choice: str) -> ProtoField:
        label = ""
        if word.text in ("optional", "required", "repeated") and self._words[self._at].kind in ("name", "sign"):
            label, word = word.text, self._word()
        if word.text == "group" and self._words[self._at].kind == "name":
            refuse(f"message {message.name} has a group, which is not read; make it a message")
        kind = self._type_name(word)
        name, number, options = self._rest_of_field()
        if label == "repeated":
            packed = options["packed"] == "true" if "packed" in options else self._proto3
            return ProtoField(name, number, kind, Presence.REPEATED, packed)
        if label == "required":
            return ProtoField(name, number, kind, Presence.REQUIRED)
        implicit = self._proto3 and not label and not choice
        return ProtoField(name, number, kind, Presence.IMPLICIT if implicit else Presence.OPTIONAL, choice=choice)

    def _rest_of_field(self) -> tuple[str, int, Mapping[str, str]]:
        """Read name, number and options behind a type; return the options with simple names."""
        name = self._name()
        self._expect("=")
        number = self._number(self._word())
        options: dict[str, str] = {}
        word = self._word()
        if word.text == "[":
            options = self._options()
            word = self._word()
        if word.text == "{":  # of a group
            refuse(f"field {name} is a group, which is not read; make it a message")
        if word.text != ";":
            self._unexpected(word, "a semicolon")
        return name, number, options

    def _options(self) -> dict[str, str]:
        options, depth, words = dict[str, str](), 1, [self._words[self._at - 1]]
        while depth:
            word = self._word()
            if word.kind == "end":
                self._unexpected(word, "]")
            depth += (word.text in ("[", "{")) - (word.text in ("]", "}"))
            if word.text == "=" and depth == 1 and words[-2:-1] and words[-2].text in ("[", ","):
                options[words[-1].text] = self._words[self._at].text
            words.append(word)
        return options

    def _enum(self, scope: str) -> None:
        name = f"{scope}.{self._name()}".lstrip(".")
        self._expect("{")
        numbers: dict[str, int] = {}
        while (word := self._word()).text != "}":
            following = self._words[self._at]
            if word.text == ";":
                continue
            if word.text in ("option", "reserved") and following.text != "=":
                self._skip()
                continue
            if word.kind != "name":
                self._unexpected(word, "a name")
            self._expect("=")
            sign = -1 if self._words[self._at].text == "-" else 1
            self._at += sign < 0
            numbers[word.text] = sign * self._number(self._word())
            if self._words[self._at].text == "[":
                self._at += 1
                self._options()
            self._expect(";")
        if not numbers:
            refuse(f"enum {name} has no values")
        if any(not -(1 << 31) <= number < 1 << 31 for number in numbers.values()):
            refuse(f"enum {name} has a number of more than 32 bits")
        self.enums.append(ProtoEnum(name, numbers))

    def _check(self, message: _Message) -> None:
        names, numbers = set[str](), set[int]()
        for known in message.fields:
            if known.name in names or known.number in numbers:
                refuse(f"message {message.name} has two fields {known.name}, or two with the number {known.number}")
            if not 1 <= known.number <= _MOST_NUMBER or known.number in _OWN_NUMBERS:
                refuse(
                    f"field {known.name} of message {message.name} has the number {known.number}, which none may have"
                )
            names.add(known.name)
            numbers.add(known.number)

    def _skip(self) -> None:
        """Pass over a statement, to its semicolon or its closing brace."""
        depth = 0
        while True:
            word = self._word()
            if word.kind == "end":
                self._unexpected(word, "; or }")
            depth += (word.text in ("{", "[", "(")) - (word.text in ("}", "]", ")"))
            if depth < 0:
                self._unexpected(word, ";")
            if depth == 0 and word.text in (";", "}"):
                return

    def _type_name(self, word: Word) -> str:
        text = ""
        if word.text == ".":
            text, word = ".", self._word()
        if word.kind != "name":
            self._unexpected(word, "a name")
        text += word.text
        while self._words[self._at].text == ".":
            self._at += 1
            text += f".{self._name()}"
        return text

    def _name(self) -> str:
        word = self._word()
        if word.kind != "name":
            self._unexpected(word, "a name")
        return word.text

    def _number(self, word: Word) -> int:
        text = word.text.lower()
        try:
            if text.startswith("0") and text.isdigit():
                return int(text, 8)
            return int(text, 0)
        except ValueError:
            self._unexpected(word, "a whole number")

    def _expect(self, text: str) -> None:
        word = self._word()
        if word.text != text:
            self._unexpected(word, text)

    def _word(self) -> Word:
        word = self._words[self._at]
        self._at += word.kind != "end"
        return word

    def _unexpected(self, word: Word, expected: str) -> NoReturn:
        refuse(f"the protobuf schema has {word} in line {word.line} where {expected} should be")
