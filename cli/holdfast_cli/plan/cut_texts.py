"""Texts inside `[...]` and `{...}` of YAML that a comma cuts in two: `[coalesce(n, 0) AS n]` is two items.

A text that opens more parentheses than it closes is put together with the next ones until all are closed, if no quotes
say where it ends. Pure; must not know fields.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

_Place = tuple[Node | None, Node | None]
"""What may begin a text that is cut, and what may go on with one."""


@dataclass(frozen=True, slots=True)
class CutText:
    """A text that stands in several nodes."""

    nodes: Sequence[Node]
    text: str

    @property
    def message(self) -> str:
        """What is wrong, and how it is put right."""
        return f"a comma ends a text inside [...] and {{...}}; put all of it into quotes: {_quoted(self.text)}"


def cut_items(node: SequenceNode) -> list[CutText]:
    """Return the items of a list that are parts of one text."""
    return list(_cut((item, item) for item in node.value)) if node.flow_style else []


def cut_values(node: MappingNode) -> list[CutText]:
    """Return the values of a mapping that go on in the keys behind them, which have no values."""
    places = ((None, key) if _text(value) == "" else (value, None) for key, value in node.value)
    return list(_cut(places)) if node.flow_style else []


def _cut(places: Iterable[_Place]) -> Iterator[CutText]:
    nodes: list[Node] = []
    texts: list[str] = []
    for beginning, going_on in places:
        if nodes and going_on is not None and (text := _text(going_on)) is not None:
            nodes.append(going_on)
            texts.append(text)
        elif beginning is not None and (text := _text(beginning)) is not None:
            nodes, texts = [beginning], [text]
        else:
            nodes, texts = [], []
        if nodes and _open(texts) <= 0:
            if len(nodes) > 1:
                yield CutText(nodes, ", ".join(texts))
            nodes, texts = [], []


def _text(node: Node) -> str | None:
    """Return the text of a scalar without quotes."""
    return str(node.value) if isinstance(node, ScalarNode) and node.style is None else None


def _open(texts: Iterable[str]) -> int:
    """Return how many parentheses are open at the end of these texts."""
    return sum(text.count("(") - text.count(")") for text in texts)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if '"' in text or "\\" in text else f'"{text}"'
