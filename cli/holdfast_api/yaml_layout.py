"""An app's tree as YAML that people read: an object a line where it fits, texts of several lines as such.

What YAML 1.1 and 1.2 read differently is quoted, as kubectl reads the one and Holdfast the other. Must not read YAML.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.planning.problems import inline_yaml

_WIDTH = 120


def as_yaml(tree: Mapping[str, Any]) -> str:
    """Return the tree as YAML, in the order of its keys."""
    return "\n".join(_mapping(tree, 0)) + "\n"


def _mapping(tree: Mapping[str, Any], indent: int) -> Iterator[str]:
    for key, value in tree.items():
        head, line = f"{' ' * indent}{inline_yaml(key)}:", inline_yaml(value)
        if isinstance(value, str) and _is_block(value):
            yield f"{head} |"
            yield from (f"{' ' * (indent + 2)}{text}" if text else "" for text in value.splitlines())
        elif isinstance(value, Mapping) and value and (not indent or not _fits(head, line, value)):
            yield head
            yield from _mapping(value, indent + 2)
        elif isinstance(value, list) and value and (indent == 2 or not _fits(head, line, value)):  # noqa: PLR2004 - below spec
            yield head
            yield from _items(value, indent)
        else:
            yield f"{head} {line}"


def _items(items: list[Any], indent: int) -> Iterator[str]:
    for item in items:
        line = inline_yaml(item)
        if not isinstance(item, Mapping) or _fits(" " * (indent + 1), line, item):
            yield f"{' ' * indent}- {line}"
            continue
        first, *more = _mapping(item, indent + 2)
        yield f"{' ' * indent}- {first.lstrip()}"
        yield from more


def _fits(head: str, line: str, value: object) -> bool:
    return len(head) + 1 + len(line) <= _WIDTH and not _has_block(value)


def _has_block(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_has_block(item) for item in value.values())
    return isinstance(value, str) and _is_block(value)


def _is_block(text: str) -> bool:
    """Return whether a text of several lines may be written line by line: it is the same when it is read."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and lines.pop() == ""
        and lines[-1] != ""
        and not lines[0].startswith((" ", "#"))
        and lines[0] != ""
        and all(line.isprintable() and (line == "" or line.strip() != "") for line in lines)
    )
