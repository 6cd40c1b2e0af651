"""The width of texts, so that boxes fit and nothing overlaps; cleaning, fitting and wrapping of texts.

The reader's fonts are not known. For each character the width is the largest of the common sans-serif fonts, so that a
text takes at most the room it is given. Must not know any file format.
"""

import unicodedata

_FIRST, _LAST = 32, 126
# Hundredths of the font size, from the space to the tilde.
_WIDTHS = (
    28, 28, 41, 65, 64, 89, 73, 22, 36, 36, 55, 66, 28, 46, 28, 41,
    62, 57, 61, 64, 64, 61, 62, 57, 62, 62, 28, 28, 66, 66, 66, 56,
    102, 68, 67, 73, 73, 67, 61, 78, 74, 34, 55, 67, 56, 91, 76, 78,
    67, 78, 72, 67, 64, 74, 68, 95, 67, 67, 62, 36, 41, 36, 57, 56,
    50, 56, 62, 56, 62, 58, 36, 62, 62, 26, 26, 54, 26, 94, 62, 60,
    62, 62, 41, 52, 36, 62, 56, 81, 54, 56, 54, 38, 55, 38, 68,
)  # fmt: skip
_FALLBACK = 70
_FULL = 105
_BOLD = 1.06
_MONO = 0.62
ELLIPSIS = "…"
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


def width_of(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """Return the largest width of a text in any of the common fonts."""
    hundredths = sum(_mono(char) if mono else _char(char) for char in text)
    return hundredths / 100 * size * (_BOLD if bold and not mono else 1)


def _char(char: str) -> float:
    code = ord(char)
    if _FIRST <= code <= _LAST:
        return _WIDTHS[code - _FIRST]
    if unicodedata.combining(char):
        return 0
    return _FULL if unicodedata.east_asian_width(char) in ("W", "F") else _FALLBACK


def _mono(char: str) -> float:
    return max(100 * _MONO, _FULL if unicodedata.east_asian_width(char) in ("W", "F") else 0)


def fitted(text: str, room: float, size: float, *, bold: bool = False, mono: bool = False) -> str:
    """Return as much of a text as fits, with an ellipsis if it is cut."""
    if width_of(text, size, bold=bold, mono=mono) <= room:
        return text
    left = room - width_of(ELLIPSIS, size, bold=bold, mono=mono)
    end = 0
    while end < len(text) and (left := left - width_of(text[end], size, bold=bold, mono=mono)) >= 0:
        end += 1
    return text[:end].rstrip() + ELLIPSIS


def wrapped(text: str, room: float, size: float) -> list[str]:
    """Return a text in lines that fit; a word longer than a line is cut."""
    lines: list[str] = []
    line, used = "", 0.0
    for word in text.split(" "):
        for piece in _pieces(word, room, size):
            wide = width_of(piece, size)
            if line and used + width_of(" ", size) + wide > room:
                lines.append(line)
                line, used = piece, wide
            else:
                line, used = (f"{line} {piece}", used + width_of(" ", size) + wide) if line else (piece, wide)
    return [*lines, line] if line else lines


def _pieces(word: str, room: float, size: float) -> list[str]:
    pieces: list[str] = []
    start, used = 0, 0.0
    for i, char in enumerate(word):
        wide = width_of(char, size)
        if used + wide > room and i > start:
            pieces.append(word[start:i])
            start, used = i, 0.0
        used += wide
    return [*pieces, word[start:]]
