"""The parts of a picture of a plan, independent of any format: cards, edges, agreements, notes.

Texts are for people and not escaped for any format. Must not know coordinates.
"""

import unicodedata
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PictureCard:
    """A stream, a step or a table. A step that makes an intermediate stream is one card with it."""

    id: str
    """Unique in the picture: `step:matched`."""
    kind: Literal["stream", "step", "table"]
    name: str
    tag: str
    """A step's verb, a stream's role, a table's distribution."""
    key: str
    """How rows are spread here, short enough for a label; empty if there is nothing to say."""
    details: tuple[str, ...] = ()
    """What a reader needs to follow the rows: the settings of a verb, a partition count."""
    makes_stream: bool = False
    """Whether this is a step together with the intermediate stream it makes."""
    more: str = ""
    """What there is no room for: why the key is lost, where a partition count comes from."""
    agreements: tuple[int, ...] = ()
    """Indices of the agreements that this stream is a member of, or that this step needs."""
    problems: tuple[int, ...] = ()
    """Numbers of the problems found here."""
    warnings: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PictureEdge:
    """Rows that flow from one card to another."""

    source: str
    target: str
    kind: Literal["reads", "writes", "feeds", "looks up", "dead letters"]
    partitions: str = ""
    """The counts of the streams whose rows these are: `16`, or `16/8` if they differ; empty if no count matters."""
    agreements: tuple[int, ...] = ()
    """Indices of the agreements whose streams flow here on the way to the nearest step that needs them."""
    wrong: bool = False
    """Whether the counts that meet at its end contradict each other."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Streams whose partition counts must agree, and every step that needs it. `letter` names it."""

    steps: tuple[tuple[str, str], ...]
    """Name and verb."""
    streams: tuple[str, ...]
    partitions: str
    kept: bool
    """Whether the known counts agree."""


@dataclass(frozen=True, slots=True)
class PictureNote:
    """A numbered problem or warning."""

    number: int
    reason: str
    subject: str
    """Name of the step, stream or table; empty for the app as a whole."""
    message: str
    repair: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """The whole plan, ready to be drawn."""

    app: str
    valid: bool
    tasks: int
    cards: tuple[PictureCard, ...]
    edges: tuple[PictureEdge, ...]
    agreements: tuple[Agreement, ...]
    problems: tuple[PictureNote, ...]
    warnings: tuple[PictureNote, ...]

    @property
    def verdict(self) -> str:
        """`valid`, or the number of problems."""
        if self.valid:
            return "valid"
        return f"rejected: {len(self.problems)} problem{'' if len(self.problems) == 1 else 's'}"


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def letter(index: int) -> str:
    """Return the letter of the agreement with this index: A ... Z, AA, AB ..."""
    text = ""
    while index >= 0:
        index, rest = divmod(index, len(_LETTERS))
        text = _LETTERS[rest] + text
        index -= 1
    return text


SET_COLOURS = ("#1a66b5", "#0f8a63", "#d05cb4", "#5c4f00", "#1f9ad0", "#33207a")
"""Colours of agreements. They differ in lightness as well as in hue, so that people with any kind of colour vision can
tell them apart; red and amber are reserved for problems and warnings."""
_REPLACEMENT = "\ufffd"
_NONCHARACTER = 0xFFFE
"""U+FFFE and U+FFFF, in every plane."""


def clean(text: str) -> str:
    """Return the text on one line, without characters that XML forbids or that are invisible.

    Control characters would make the file invalid; characters that change the direction of writing would let a text
    look like another one.
    """
    shown = "".join(_REPLACEMENT if _unshowable(char) else char for char in " ".join(text.split()))
    return unicodedata.normalize("NFC", shown)


def _unshowable(char: str) -> bool:
    category = unicodedata.category(char)
    return category in ("Cc", "Cf", "Cs", "Zl", "Zp") or (ord(char) & _NONCHARACTER) == _NONCHARACTER
