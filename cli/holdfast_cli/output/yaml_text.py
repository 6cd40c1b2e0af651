"""YAML as Holdfast writes it: the same tree gives the same bytes, so that generated files can be compared.

Kubernetes' tools read YAML 1.1, we write 1.2: texts that mean something else in 1.1 are quoted, or `on` would
arrive as true. Must not read YAML; what users write is read elsewhere, with line numbers.
"""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.representer import SafeRepresenter

_WIDTH = 1_000_000
"""Longer than any line: a folded rule or description could not be searched for."""
_LINE = 100
"""Values that fit here stand on one line."""
OTHER_IN_YAML_1_1 = re.compile(r"y|n|yes|no|on|off|[-+.0-9][-+.0-9_:xoe]*", re.IGNORECASE)


class _Representer(SafeRepresenter):
    """ruamel's, with small values on one line and equal parts written out each time."""

    # What is given besides the data is ruamel's business and handed on as it is.
    def ignore_aliases(self, *_: Any) -> bool:
        return True

    def represent_mapping(self, *data: Any, **style: Any) -> MappingNode:
        node: MappingNode = super().represent_mapping(*data, **style)
        node.flow_style = _fits([scalar for pair in node.value for scalar in pair])
        return node

    def represent_sequence(self, *data: Any, **style: Any) -> SequenceNode:
        node: SequenceNode = super().represent_sequence(*data, **style)
        node.flow_style = _fits(node.value)
        return node


def _fits(nodes: list[Node]) -> bool:
    """Whether these are small enough to stand on one line."""
    return all(isinstance(node, ScalarNode) for node in nodes) and sum(len(node.value) + 2 for node in nodes) <= _LINE


def _text(representer: SafeRepresenter, text: str) -> ScalarNode:
    style = "'" if OTHER_IN_YAML_1_1.fullmatch(text) else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _text)


def to_yaml(tree: Mapping[str, object], *, header: str = "") -> str:
    """The tree as YAML, in the order of its keys, under a comment."""
    writer = YAML(typ="safe", pure=True)
    writer.Representer = _Representer
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # declared None, read as a truth value
    writer.width = _WIDTH
    out = StringIO()
    writer.dump(tree, out)
    return "".join(f"# {line}\n" for line in header.splitlines()) + out.getvalue()
