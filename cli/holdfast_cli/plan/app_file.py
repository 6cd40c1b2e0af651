"""StreamApp files: YAML, or Python, with line and column, into a `StreamApp` or into all errors with their marks.

Files are read as YAML 1.2, where `no` is a string. `kubectl` reads YAML 1.1, so a value that the two read
differently is an error here rather than a surprise there. The YAML part only knows how to find the StreamApp among
other documents. Must not print.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from holdfast.errors import UserActionError, safely
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import FieldError, SpecInvalidError, parse_app
from holdfast.spec.rule_checks import FieldPath
from holdfast_cli.plan.cut_texts import CutText, cut_items, cut_values
from holdfast_cli.plan.python_app import is_python, python_app

KIND = "StreamApp"
_MAX_DEPTH = 100
_MAX_NODES = 500_000
"""Limit for small files that anchors expand to enormous ones; far more than any app needs."""
_BOOLEANS_OF_1_1 = {"y", "n", "yes", "no", "on", "off"}
_PREFIX = "tag:yaml.org,2002:"


class FileUnreadableError(UserActionError):
    """A file that can't be read at all: missing, not YAML, or without the expected object."""


@dataclass(frozen=True, slots=True)
class FileMark:
    """Line and column in a file, counted from 1 as in editors."""

    line: int
    column: int


@dataclass(slots=True)
class Document:
    """One YAML document."""

    tree: Any
    marks: dict[FieldPath, FileMark]
    errors: list[FieldError] = field(default_factory=list)
    """What YAML allows and a StreamApp does not: duplicate keys, words that kubectl would read as booleans."""

    def mark(self, path: FieldPath) -> FileMark:
        """Return the mark of this field, or of its nearest parent."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path, FileMark(1, 1))


def read_text(path: Path) -> str:
    """Return the text of a file; `-` is standard input."""
    try:
        if str(path) == "-":
            return sys.stdin.read()
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} can't be read: {error}"
        raise FileUnreadableError(message) from error


def app_document(text: str, name: str) -> Document:
    """Return the only StreamApp of a file; other Kubernetes objects are ignored."""
    documents = list(documents_of(text, name))
    apps = [document for document in documents if isinstance(document.tree, dict) and document.tree.get("kind") == KIND]
    if len(apps) == 1:
        return apps[0]
    if len(apps) > 1:
        names = ", ".join(_app_name(document.tree) for document in apps)
        message = f"{name} holds {len(apps)} StreamApps ({names}); give each a file of its own"
        raise FileUnreadableError(message)
    if len(documents) == 1:
        return documents[0]
    message = f"{name} holds no StreamApp"
    raise FileUnreadableError(message)


def _app_name(tree: dict[Any, Any]) -> str:
    metadata = tree.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else "without a name"


def documents_of(text: str, name: str) -> Iterator[Document]:
    """Yield every document of a YAML text."""
    yaml = YAML(typ="safe", pure=True)
    try:
        for node in yaml.compose_all(text):
            yield _Reading(name).document(node)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        address = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        problem = str(error.problem or error.context)
        hint = "; put a text with quotes, commas or brackets into quotes as a whole" if "expected" in problem else ""
        message = f"{address}: not YAML: {problem}{hint}"
        raise FileUnreadableError(message) from error
    except (YAMLError, RecursionError, ValueError) as error:
        message = f"{name}: not YAML: {error}"
        raise FileUnreadableError(message) from error


class _Reading:
    """Converts YAML nodes to plain values and records their marks."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._marks: dict[FieldPath, FileMark] = {}
        self._errors: list[FieldError] = []
        self._left = _MAX_NODES

    def document(self, node: Node | None) -> Document:
        tree = None if node is None else self._value(node, ())
        return Document(tree, self._marks, self._errors)

    def _value(self, node: Node, path: FieldPath) -> Any:
        self._left -= 1
        if self._left < 0 or len(path) > _MAX_DEPTH:
            message = f"{self._name}: too large or too deep to be a StreamApp"
            raise FileUnreadableError(message)
        self._marks.setdefault(path, _mark(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return self._sequence(node, path)
        return self._scalar(node, path)

    def _sequence(self, node: SequenceNode, path: FieldPath) -> list[Any]:
        values: list[Any] = []
        cut_nodes = _by_node(cut_items(node))
        for item in node.value:
            item_path = (*path, len(values))
            if id(item) not in cut_nodes:
                values.append(self._value(item, item_path))
            elif (cut_text := cut_nodes[id(item)]) is not None:
                values.append(self._whole(cut_text, item_path))
        return values

    def _whole(self, cut_text: CutText, path: FieldPath) -> str:
        """Return the text as it was meant."""
        self._marks.setdefault(path, _mark(cut_text.nodes[0]))
        self._errors.append(FieldError(path, cut_text.text, cut_text.message))
        return cut_text.text

    def _mapping(self, node: MappingNode, path: FieldPath) -> dict[Any, Any]:
        tree: dict[Any, Any] = {}
        keys: set[str] = set()
        cut_nodes = _by_node(cut_values(node))
        for key_node, value_node in node.value:
            if id(key_node) in cut_nodes:
                continue
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else "(not a text)"
            key_path = (*path, key)
            if key == "<<" and isinstance(value_node, MappingNode | SequenceNode):
                self._merge(tree, value_node, path)
                continue
            if key in keys:
                self._errors.append(FieldError(key_path, key, f"{key} is given twice"))
            keys.add(key)
            self._marks[key_path] = _mark(key_node)
            if key != "on":  # which has an error of its own, that says what the field is called
                self._check_plain(key_node, key_path)
            cut_text = cut_nodes.get(id(value_node))
            tree[key] = self._value(value_node, key_path) if cut_text is None else self._whole(cut_text, key_path)
        return tree

    def _merge(self, tree: dict[Any, Any], node: Node, path: FieldPath) -> None:
        for source in node.value if isinstance(node, SequenceNode) else [node]:
            merged = self._value(source, path)
            if isinstance(merged, dict):
                for key, value in merged.items():
                    tree.setdefault(key, value)

    def _scalar(self, node: Node, path: FieldPath) -> Any:
        text, tag = str(node.value), str(node.tag).removeprefix(_PREFIX)
        self._check_plain(node, path)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        if tag in ("int", "float"):
            return _number(text, tag)
        if tag not in ("str", "timestamp"):
            self._errors.append(FieldError(path, text, f"the tag {node.tag} has no meaning here"))
        return text

    def _check_plain(self, node: Node, path: FieldPath) -> None:
        if getattr(node, "style", None) is None and str(node.value).lower() in _BOOLEANS_OF_1_1:
            message = f"kubectl reads the unquoted {node.value} as a boolean; put it in quotes"
            self._errors.append(FieldError(path, node.value, message))


def _by_node(cut_texts: list[CutText]) -> dict[int, CutText | None]:
    """Return the id of a node that begins a text -> the text, and None for nodes that go on with one."""
    by_node: dict[int, CutText | None] = {id(node): None for cut_text in cut_texts for node in cut_text.nodes}
    return by_node | {id(cut_text.nodes[0]): cut_text for cut_text in cut_texts}


def _number(text: str, tag: str) -> int | float | str:
    plain = text.replace("_", "")
    try:
        if tag == "int":
            return int(plain, 0) if plain.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(plain)
        return float(plain.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text


def _mark(node: Node) -> FileMark:
    return FileMark(node.start_mark.line + 1, node.start_mark.column + 1)


@dataclass(frozen=True, slots=True)
class AppFile:
    """A file, its StreamApp if it is valid, and its errors."""

    path: str
    text: str
    document: Document
    app: StreamApp | None
    errors: tuple[FieldError, ...]

    @property
    def folder(self) -> Path | None:
        """Return the directory of the file; None for standard input."""
        return None if self.path == "-" else Path(self.path).absolute().parent

    @property
    def name(self) -> str | None:
        """Return the app's name; None if the file does not give it."""
        tree = self.document.tree
        metadata = tree.get("metadata") if isinstance(tree, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else None

    def mark_of(self, error: FieldError) -> FileMark:
        """Return the mark of an error."""
        return self.document.mark(error.path)

    def address_of(self, error: FieldError) -> str:
        """Return the address of an error, e.g. `app.yaml:12:7`."""
        mark = self.mark_of(error)
        return f"{self.path}:{mark.line}:{mark.column}"


def load_app(path: str) -> AppFile:
    """Read the app of a file; raise `FileUnreadableError` if the file holds none."""
    return app_file(read_text(Path(path)), path)


def app_file(text: str, path: str) -> AppFile:
    """Return the file with this text; raise `FileUnreadableError` if it holds no app."""
    document = _python_document(text, path) if is_python(path) else app_document(text, path)
    errors = list(document.errors)
    app: StreamApp | None = None
    try:
        app = safely(lambda: parse_app(document.tree))
    except SpecInvalidError as error:
        errors += error.errors
    app = None if errors else app
    errors.sort(key=lambda error: _order(document, error))
    return AppFile(path, text, document, app, tuple(errors))


def _python_document(text: str, path: str) -> Document:
    app = python_app(text, path)
    return Document(app.tree, {field: FileMark(*mark) for field, mark in app.marks.items()})


def _order(document: Document, error: FieldError) -> tuple[int, int]:
    mark = document.mark(error.path)
    return mark.line, mark.column
