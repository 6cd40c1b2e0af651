"""The YAML writer: the same tree gives the same bytes, so that generated files can be compared.

Kubernetes tools read YAML 1.1, this writes 1.2: strings that mean something else in 1.1 are quoted, or `no` would
arrive as false. Must not read YAML; users' files are read elsewhere, with line numbers.
"""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.representer import SafeRepresenter

_WIDTH = 1_000_000
"""Longer than any line, so that none is folded: a folded rule or description can't be searched for."""
_LINE = 100
"""Lists and mappings up to this length are written on one line."""
OTHER_IN_YAML_1_1 = re.compile(r"y|n|yes|no|on|off|[-+.0-9][-+.0-9_:xoe]*", re.IGNORECASE)


class _Representer(SafeRepresenter):
    """ruamel's representer, with small values on one line and no aliases."""

    # The other arguments belong to ruamel and are passed on unchanged.
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
    """Return whether these nodes fit on one line."""
    return all(isinstance(node, ScalarNode) for node in nodes) and sum(len(node.value) + 2 for node in nodes) <= _LINE


def _text(representer: SafeRepresenter, text: str) -> ScalarNode:
    style = "'" if OTHER_IN_YAML_1_1.fullmatch(text) else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _text)


def to_yaml(tree: Mapping[str, object], *, header: str = "") -> str:
    """Return the tree as YAML, in the order of its keys, below a comment."""
    writer = YAML(typ="safe", pure=True)
    writer.Representer = _Representer
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # declared None, read as a truth value
    writer.width = _WIDTH
    out = StringIO()
    writer.dump(tree, out)
    return "".join(f"# {line}\n" for line in header.splitlines()) + out.getvalue()
