"""Why: the plan as Mermaid text, which GitHub and many wikis draw where an image can't be put.

Only what Mermaid can say: shapes, labels, counts, and four classes of nodes. All text is written with character codes
where Mermaid would read it as syntax.
"""

from holdfast.planning.picture.parts import Picture, PictureEdge, PictureNode, letter
from holdfast.planning.picture.text import clean

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:/()=+→·…?")
_SHAPES = {"stream": ('(["', '"])'), "step": ('["', '"]'), "table": ('[("', '")]')}
_ARROWS = {"dead letters": "-.->"}
_CLASSES = (
    "classDef stream fill:#f1f6fb,stroke:#8fa6be,color:#17202b",
    "classDef step fill:#ffffff,stroke:#b6c0cc,color:#17202b",
    "classDef table fill:#f7f4ee,stroke:#b3a78f,color:#17202b",
    "classDef problem fill:#fff5f4,stroke:#d3322b,stroke-width:2px,color:#17202b",
    "classDef warn fill:#fffaf0,stroke:#c27c0e,stroke-width:2px,color:#17202b",
)


def mermaid_of(picture: Picture) -> str:
    """The picture as a Mermaid flowchart."""
    short = {node.id: f"n{i}" for i, node in enumerate(picture.nodes)}
    lines = [
        "---",
        f'title: "{_escaped(f"{picture.app} - {picture.verdict}")}"',
        "---",
        "flowchart LR",
        *(f"  {_node(short[node.id], node)}" for node in picture.nodes),
        *(f"  {short[edge.source]} {_arrow(edge)} {short[edge.target]}" for edge in picture.edges),
        *(f"  {one}" for one in _CLASSES),
        *_notes(picture),
    ]
    return "\n".join(lines) + "\n"


def _node(name: str, node: PictureNode) -> str:
    opening, closing = _SHAPES[node.kind]
    marks = [*(letter(i) for i in node.agreements), *(f"problem {n}" for n in node.problems)]
    texts = [node.name, f"{node.tag}: {', '.join(line.text for line in node.details)}" if node.details else node.tag]
    if node.key:
        texts.append(f"key: {node.key}")
    if marks:
        texts.append(", ".join(marks))
    css = "problem" if node.problems else "warn" if node.warnings else node.kind
    return f"{name}{opening}{'<br/>'.join(map(_escaped, texts))}{closing}:::{css}"


def _arrow(edge: PictureEdge) -> str:
    arrow = _ARROWS.get(edge.kind, "-->")
    return f'{arrow}|"{_escaped(edge.partitions)}"|' if edge.partitions else arrow


def _notes(picture: Picture) -> list[str]:
    """Agreements and problems as comments: Mermaid has no lists."""
    agreements = [
        f"{letter(i)}, for {', '.join(name for name, _ in one.steps)}: {', '.join(one.streams)} have {one.partitions}"
        for i, one in enumerate(picture.agreements)
    ]
    problems = [f"problem {note.number}: {note.reason} at {note.place}: {note.message}" for note in picture.problems]
    # Mermaid obeys directives, and a page's parser tags, even inside a comment.
    return [f"  %% {_escaped(text)}" for text in (*agreements, *problems)]


def _escaped(text: str) -> str:
    return "".join(char if char in _PLAIN else f"#{ord(char)};" for char in clean(text))
