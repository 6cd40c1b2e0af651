"""The formats of a picture by name; and the plan as Graphviz text and as Mermaid text.

Graphviz is for people with tools of their own. GitHub and many wikis draw Mermaid where they accept no image. Each has
only what the format supports: shapes, labels, counts, colours (Graphviz without HTML labels, Mermaid with four classes
of nodes). All text is quoted, or escaped where it would be read as syntax.
"""

from holdfast.planning.picture.model import picture_of
from holdfast.planning.picture.parts import SET_COLOURS, Picture, PictureCard, PictureEdge, clean, letter
from holdfast.planning.picture.svg import svg_of
from holdfast.planning.plan import Plan
from holdfast.spec.app import StreamApp

_LOOKS = {
    "stream": 'shape=box style="rounded,filled" fillcolor="#f1f6fb"',
    "step": 'shape=box style="filled" fillcolor="#ffffff"',
    "table": 'shape=cylinder style="filled" fillcolor="#f7f4ee"',
}
_BORDER, _PROBLEM, _WARN = 'color="#8fa6be"', 'color="#d3322b" penwidth=2', 'color="#c27c0e" penwidth=2'


def dot_of(picture: Picture) -> str:
    """Return the picture as a Graphviz digraph."""
    lines = [
        f"digraph {_quoted(picture.app)} {{",
        '  rankdir=LR; labelloc=t; fontname="Helvetica"; fontsize=16;',
        f"  label={_label([f'{picture.app}: {picture.verdict}', *_dot_notes(picture)])};",
        '  node [fontname="Helvetica" fontsize=11 fontcolor="#17202b"];',
        '  edge [fontname="Helvetica" fontsize=10 color="#94a1b0"];',
        *(f"  {_quoted(card.id)} [{_look(card)} label={_label(_texts(card))}];" for card in picture.cards),
        *(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{_edge(edge)}];" for edge in picture.edges),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _look(card: PictureCard) -> str:
    border = _PROBLEM if card.problems else _WARN if card.warnings else _BORDER
    return f"{_LOOKS[card.kind]} {border}"


def _texts(card: PictureCard) -> list[str]:
    marks = [*(letter(i) for i in card.agreements), *(f"problem {n}" for n in card.problems)]
    texts = [card.name, f"{card.tag}, key {card.key}" if card.key else card.tag, *card.details]
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
    return [f"{note.number} {note.reason} at {note.subject}: {note.message}" for note in picture.problems]


def _label(lines: list[str]) -> str:
    """Join lines into one label. Graphviz interprets backslashes in labels, so those of the text are doubled."""
    return '"' + "\\n".join(_body(line) for line in lines) + '"'


def _quoted(text: str) -> str:
    return f'"{_body(text)}"'


def _body(text: str) -> str:
    # Graphviz decodes HTML entities in every label, even quoted ones.
    return clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")


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
    """Return the picture as a Mermaid flowchart."""
    short = {card.id: f"n{i}" for i, card in enumerate(picture.cards)}
    lines = [
        "---",
        f'title: "{_escaped(f"{picture.app} - {picture.verdict}")}"',
        "---",
        "flowchart LR",
        *(f"  {_card(short[card.id], card)}" for card in picture.cards),
        *(f"  {short[edge.source]} {_arrow(edge)} {short[edge.target]}" for edge in picture.edges),
        *(f"  {one}" for one in _CLASSES),
        *_notes(picture),
    ]
    return "\n".join(lines) + "\n"


def _card(name: str, card: PictureCard) -> str:
    opening, closing = _SHAPES[card.kind]
    css = "problem" if card.problems else "warn" if card.warnings else card.kind
    return f"{name}{opening}{'<br/>'.join(map(_escaped, _texts(card)))}{closing}:::{css}"


def _arrow(edge: PictureEdge) -> str:
    arrow = _ARROWS.get(edge.kind, "-->")
    return f'{arrow}|"{_escaped(edge.partitions)}"|' if edge.partitions else arrow


def _notes(picture: Picture) -> list[str]:
    """Agreements and problems as comments: Mermaid has no lists."""
    agreements = [
        f"{letter(i)}, for {', '.join(name for name, _ in agreement.steps)}: "
        f"{', '.join(agreement.streams)} have {agreement.partitions}"
        for i, agreement in enumerate(picture.agreements)
    ]
    problems = [f"problem {note.number}: {note.reason} at {note.subject}: {note.message}" for note in picture.problems]
    # Even inside a comment, Mermaid executes directives and the parser of the page interprets tags.
    return [f"  %% {_escaped(text)}" for text in (*agreements, *problems)]


def _escaped(text: str) -> str:
    return "".join(char if char in _PLAIN else f"#{ord(char)};" for char in clean(text))


FORMATS = {"svg": svg_of, "mermaid": mermaid_of, "dot": dot_of}


def draw(form: str, plan: Plan, app: StreamApp) -> str:
    """Return the plan as a picture in one of `FORMATS`."""
    return FORMATS[form](picture_of(plan, app))
