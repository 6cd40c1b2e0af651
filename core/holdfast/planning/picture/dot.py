"""Why: the plan as Graphviz text, for those who have tools of their own.

Only what Graphviz can say without HTML labels: shapes, labels, counts and colours. All text is quoted.
"""

from holdfast.planning.picture.parts import Picture, PictureEdge, PictureNode, letter
from holdfast.planning.picture.svg_text import SET_COLOURS
from holdfast.planning.picture.text import clean

_LOOKS = {
    "stream": 'shape=box style="rounded,filled" fillcolor="#f1f6fb" color="#8fa6be"',
    "step": 'shape=box style="filled" fillcolor="#ffffff" color="#b6c0cc"',
    "table": 'shape=cylinder style="filled" fillcolor="#f7f4ee" color="#b3a78f"',
}
_PROBLEM = 'color="#d3322b" penwidth=2'
_WARN = 'color="#c27c0e" penwidth=2'


def dot_of(picture: Picture) -> str:
    """The picture as a Graphviz digraph."""
    lines = [
        f"digraph {_quoted(picture.app)} {{",
        '  rankdir=LR; labelloc=t; fontname="Helvetica"; fontsize=16;',
        f"  label={_label([f'{picture.app}: {picture.verdict}', *_dot_notes(picture)])};",
        '  node [fontname="Helvetica" fontsize=11 fontcolor="#17202b"];',
        '  edge [fontname="Helvetica" fontsize=10 color="#94a1b0"];',
        *(f"  {_quoted(node.id)} [{_look(node)} label={_label(_texts(node))}];" for node in picture.nodes),
        *(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{_edge(edge)}];" for edge in picture.edges),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _look(node: PictureNode) -> str:
    finding = f" {_PROBLEM}" if node.problems else f" {_WARN}" if node.warnings else ""
    look = _LOOKS[node.kind]
    return look[: look.rindex(" color=")] + finding if finding else look


def _texts(node: PictureNode) -> list[str]:
    marks = [*(letter(i) for i in node.agreements), *(f"problem {n}" for n in node.problems)]
    texts = [node.name, f"{node.tag}, key {node.key}" if node.key else node.tag, *(line.text for line in node.details)]
    return [*texts, ", ".join(marks)] if marks else texts


def _edge(edge: PictureEdge) -> str:
    parts = [f"label={_quoted(edge.partitions)}"] if edge.partitions else []
    if edge.agreements:
        parts.append(f'color="{SET_COLOURS[edge.agreements[0] % len(SET_COLOURS)]}" penwidth=2')
    if edge.wrong:
        parts.append('fontcolor="#b3251f"')
    if edge.kind == "dead letters":
        parts.append("style=dotted")
    return " ".join(parts)


def _dot_notes(picture: Picture) -> list[str]:
    return [f"{note.number} {note.reason} at {note.place}: {note.message}" for note in picture.problems]


def _label(lines: list[str]) -> str:
    """Lines as one label. Graphviz reads backslashes in labels, so those of the text are doubled."""
    return '"' + "\\n".join(_body(line) for line in lines) + '"'


def _quoted(text: str) -> str:
    return f'"{_body(text)}"'


def _body(text: str) -> str:
    # Graphviz decodes HTML entities in every label, even quoted ones.
    return clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
