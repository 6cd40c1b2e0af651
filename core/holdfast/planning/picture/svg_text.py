"""Text as SVG: escaped, in one of a few styles, never wider than its room; and the style sheet.

The style sheet is here because its font sizes must be those that widths are measured with. Must not know nodes.
"""

from dataclasses import dataclass
from xml.sax.saxutils import escape

from holdfast.planning.picture.text import clean, fitted, width_of

SET_COLOURS = ("#1a66b5", "#0f8a63", "#d05cb4", "#5c4f00", "#1f9ad0", "#33207a")
"""Colours on light pages. They differ in lightness as well as in hue, so that people with any kind of colour vision can
tell them apart; red and amber are reserved for problems and warnings."""
_DARK_SETS = ("#4f9ef0", "#2fbf98", "#e597dc", "#f0eca0", "#a8e0fa", "#7a70ea")


@dataclass(frozen=True, slots=True)
class Style:
    """A text style."""

    css: str
    size: float
    bold: bool = False
    mono: bool = False
    spacing: float = 0.0
    """Extra space after each letter."""

    def width(self, text: str) -> float:
        """Return the width of a text."""
        return width_of(text, self.size, bold=self.bold, mono=self.mono) + self.spacing * len(text)

    def fit(self, text: str, room: float) -> str:
        """Return a text, shortened if it is wider than `room`."""
        return fitted(text, room - self.spacing * len(text), self.size, bold=self.bold, mono=self.mono)


TITLE = Style("hf-title", 20, bold=True)
NAME = Style("hf-name", 13, bold=True)
DETAIL = Style("hf-detail", 11)
CODE = Style("hf-code", 10.5, mono=True)
TAG = Style("hf-tag", 9, bold=True, spacing=0.5)
KEY = Style("hf-key", 10)
COUNT = Style("hf-count", 10.5, bold=True)
BADGE = Style("hf-badge", 9.5, bold=True)
HEADING = Style("hf-heading", 12, bold=True)
REASON = Style("hf-reason", 12, bold=True)
BODY = Style("hf-body", 12)

_SANS = (
    "-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,sans-serif"
)
_MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono','DejaVu Sans Mono',monospace"

_LIGHT = {
    "paper": ("#ffffff", "#d8dee6"),
    "step": ("#ffffff", "#b6c0cc"),
    "stream": ("#f1f6fb", "#8fa6be"),
    "table": ("#f7f4ee", "#b3a78f"),
    "chip": ("#ffffff", "#c3ccd6"),
    "error": ("#fff5f4", "#d3322b"),
    "warn": ("#fffaf0", "#c27c0e"),
}
_DARK = {
    "paper": ("#10151c", "#2c3643"),
    "step": ("#19212b", "#4b596a"),
    "stream": ("#16263a", "#54759a"),
    "table": ("#262219", "#857552"),
    "chip": ("#10151c", "#455365"),
    "error": ("#321716", "#f0625b"),
    "warn": ("#2c2210", "#dc9a2e"),
}
_LIGHT_INK = {
    "strong": "#17202b",
    "soft": "#566373",
    "line": "#94a1b0",
    "good": "#157a3d",
    "bad": "#b3251f",
    "amber": "#8f5a06",
}
_DARK_INK = {
    "strong": "#e8edf3",
    "soft": "#9dabbb",
    "line": "#6b7a8c",
    "good": "#5bc983",
    "bad": "#ff8680",
    "amber": "#e9b45c",
}
_TAGS = {
    "rows": ("#e9edf2", "#46525f", "#2b3644", "#bcc8d5"),
    "keyed": ("#ece8f7", "#55419b", "#332b52", "#c6b9f0"),
    "meets": ("#e2eefa", "#1d5c9c", "#1b3856", "#9cc8f2"),
    "moves": ("#dff2ec", "#0f6b56", "#153d34", "#86d8c1"),
    "data": ("#dfe8f2", "#3c5875", "#243b55", "#a8c2dd"),
    "table": ("#eee6d5", "#71602f", "#3d3421", "#d6c79e"),
}


def style_sheet() -> str:
    """Return the style sheet, for light and for dark pages."""
    fixed = [
        f".hf-picture text{{font-family:{_SANS}}}",
        f".hf-picture .hf-code{{font-family:{_MONO}}}",
        *(f".{s.css}{{font-size:{s.size}px{';font-weight:600' if s.bold else ''}}}" for s in _STYLES),
        f".hf-tag{{letter-spacing:{TAG.spacing}px}}",
        ".hf-mid{text-anchor:middle}.hf-end{text-anchor:end}.hf-dot{stroke-width:1.5}",
        ".hf-edge,.hf-strand,.hf-band{fill:none}.hf-edge{stroke-width:1.5}.hf-strand{stroke-width:2}",
        ".hf-band{stroke-width:9;stroke-opacity:.17}.hf-dead{stroke-dasharray:2 4}",
    ]
    light = "".join([*_themed(_LIGHT, _LIGHT_INK), *_sets(SET_COLOURS), *_tags(0)])
    dark = "".join([*_themed(_DARK, _DARK_INK), *_sets(_DARK_SETS), *_tags(2)])
    return f"{''.join(fixed)}{light}@media (prefers-color-scheme:dark){{{dark}}}"


_STYLES = (TITLE, NAME, DETAIL, CODE, TAG, KEY, COUNT, BADGE, HEADING, REASON, BODY)


def _sets(colours: tuple[str, ...]) -> list[str]:
    return [f".hf-set{i}{{stroke:{colour}}}.hf-setfill{i}{{fill:{colour}}}" for i, colour in enumerate(colours)]


def _tags(first: int) -> list[str]:
    return [f".hf-tag-{name}{{fill:{c[first]}}}.hf-tagtext-{name}{{fill:{c[first + 1]}}}" for name, c in _TAGS.items()]


def _themed(areas: dict[str, tuple[str, str]], ink: dict[str, str]) -> list[str]:
    strong = ".hf-title,.hf-name,.hf-heading,.hf-reason,.hf-count"
    return [
        *(f".hf-{name}{{fill:{fill};stroke:{stroke}}}" for name, (fill, stroke) in areas.items()),
        f"{strong}{{fill:{ink['strong']}}}.hf-detail,.hf-code,.hf-key,.hf-body{{fill:{ink['soft']}}}",
        f".hf-edge,.hf-glyph{{stroke:{ink['line']}}}.hf-glyph{{fill:none}}.hf-head{{fill:{ink['line']}}}",
        f".hf-good{{fill:{ink['good']}}}.hf-bad{{fill:{ink['bad']}}}.hf-amber{{fill:{ink['amber']}}}",
        f".hf-dot{{stroke:{areas['paper'][0]}}}.hf-errorfill{{fill:{areas['error'][1]}}}.hf-warnfill{{fill:{areas['warn'][1]}}}",
        f".hf-goodfill{{fill:{ink['good']};fill-opacity:.12}}.hf-badfill{{fill:{ink['bad']};fill-opacity:.12}}",
        f".hf-badge{{fill:{areas['paper'][0]}}}",
    ]


def number(value: float) -> str:
    """Return a coordinate as text: at most one digit after the point, the same on every machine."""
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


def attribute(text: str) -> str:
    """Return any text as the value of an attribute in double quotes."""
    return escape(clean(text), {'"': "&quot;", "'": "&#39;"})


def content(text: str) -> str:
    """Return any text, escaped to stand between tags."""
    return escape(clean(text))


def write(x: float, y: float, text: str, style: Style, *extra: str) -> str:
    """Return a line of text with its baseline at `y`; `extra` are further classes."""
    classes = " ".join((style.css, *extra))
    return f'<text x="{number(x)}" y="{number(y)}" class="{classes}">{content(text)}</text>'


def write_pair(x: float, y: float, first: tuple[str, Style], second: tuple[str, Style], gap: float) -> str:
    """Return two texts on a line, the second where the first really ends in the reader's font."""
    (a, left), (b, right) = first, second
    return (
        f'<text x="{number(x)}" y="{number(y)}"><tspan class="{left.css}">{content(a)}</tspan>'
        f'<tspan dx="{number(gap)}" class="{right.css}">{content(b)}</tspan></text>'
    )


def rounded(area: tuple[float, float, float, float], corner: float, css: str) -> str:
    """Return a rectangle with round corners; `area` is x, y, width and height."""
    x, y, width, height = map(number, area)
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{number(corner)}" class="{css}"/>'
