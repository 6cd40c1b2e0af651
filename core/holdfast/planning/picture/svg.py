"""The plan as one self-contained SVG file, for light and dark pages.

This is the picture to put in a document. `svg_of` lists the parts in the order in which they are drawn. The same
picture always gives the same bytes. No scripts, no external references, all text escaped.
"""

from collections.abc import Callable, Iterator

from holdfast.planning.picture.layout import BoxLink, PictureLayout, lay_out
from holdfast.planning.picture.parts import Picture
from holdfast.planning.picture.svg_edges import chip_width, chips_svg, lines_svg
from holdfast.planning.picture.svg_lists import (
    TITLE_HEIGHT,
    Block,
    agreements_svg,
    problems_svg,
    size_of,
    title_svg,
    title_width,
    warnings_svg,
)
from holdfast.planning.picture.svg_nodes import box_of, node_svg
from holdfast.planning.picture.svg_text import attribute, content, number, rounded, style_sheet

_MARGIN, _BETWEEN, _NARROWEST = 28.0, 26.0, 620.0


def layout_of(picture: Picture) -> PictureLayout:
    """Return the places of the cards and lines of a picture."""
    index = {node.id: i for i, node in enumerate(picture.nodes)}
    links = [BoxLink(index[edge.source], index[edge.target], chip_width(edge)) for edge in picture.edges]
    return lay_out([box_of(node) for node in picture.nodes], links)


def svg_of(picture: Picture) -> str:
    """Return the picture as a standalone SVG document."""
    layout = layout_of(picture)
    width = max(layout.width, _NARROWEST, title_width(picture))
    graph_top = _MARGIN + TITLE_HEIGHT
    nodes = {node.id: node for node in picture.nodes}
    parts = [
        *title_svg(picture, _MARGIN, _MARGIN),
        f'<g transform="translate({number(_MARGIN + max(0.0, (width - layout.width) / 2))} {number(graph_top)})">',
        *lines_svg(picture.edges, layout.routes),
        *(part for node, place in zip(picture.nodes, layout.places, strict=True) for part in node_svg(node, place)),
        *chips_svg(picture.edges, layout.routes, nodes),
        "</g>",
    ]
    bottom = graph_top + layout.height
    for block in _below(picture, bottom, width):
        parts += block.parts
        bottom += _BETWEEN + block.height
    return _page(picture, parts, width + 2 * _MARGIN, bottom + _MARGIN)


def _below(picture: Picture, top: float, width: float) -> Iterator[Block]:
    """The blocks under the graph, each below the one before."""
    draw: tuple[Callable[[float], Block], ...] = (
        lambda y: agreements_svg(picture.agreements, _MARGIN, y, width),
        lambda y: problems_svg(picture.problems, _MARGIN, y, width),
        lambda y: warnings_svg(picture.warnings, _MARGIN, y, width),
    )
    for one in draw:
        block = one(top + _BETWEEN)
        if block.parts:
            top += _BETWEEN + block.height
            yield block


def _page(picture: Picture, parts: list[str], width: float, height: float) -> str:
    # Ids are per app, so that several pictures can stand in one page.
    ids = attribute(f"holdfast-{picture.app}-title"), attribute(f"holdfast-{picture.app}-desc")
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    xmlns = 'xmlns="http://www.w3.org/2000/svg"'
    lines = [
        f'<svg {xmlns} {size} class="hf-picture" role="img" aria-labelledby="{ids[0]} {ids[1]}">',
        f'<title id="{ids[0]}">{content(f"{picture.app}: {picture.verdict}")}</title>',
        f'<desc id="{ids[1]}">{content(_description(picture))}</desc>',
        f"<style>{style_sheet()}</style>",
        rounded((0.5, 0.5, width - 1, height - 1), 12, "hf-paper"),
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _description(picture: Picture) -> str:
    """The description of the picture for screen readers."""
    names = {node.id: node.name for node in picture.nodes}
    flows = "; ".join(f"{names[edge.source]} to {names[edge.target]}" for edge in picture.edges)
    said = " ".join(f"{note.reason} at {note.place or picture.app}: {note.message}." for note in picture.problems)
    return f"Plan of {picture.app}, {size_of(picture)}. Rows flow: {flows}. {said}".strip()
