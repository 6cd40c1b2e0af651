"""Records of JSON: good in all forms that the compiled reader takes, and mutated a little or much."""

import base64
import json
import random
from collections.abc import Callable

import pyarrow as pa

from tests.codecs.poisoned_json import fitting, moment, number, quoted, value
from tests.codecs.schemas import schema

COLUMNS = schema(
    "a BIGINT, i INT, s SMALLINT, t TINYINT, c DOUBLE, h FLOAT, f BOOLEAN, b STRING, name STRING, d TIMESTAMP, "
    "n TIMESTAMP_NTZ, g DATE, `été` STRING, m DECIMAL(12,3), w DECIMAL(38,18), y BINARY, v VOID, l ARRAY<INT>, "
    "o STRUCT<x: BIGINT, t: STRING, o: STRUCT<z: DECIMAL(5,2), d: TIMESTAMP, f: BOOLEAN>>, "
    "ls ARRAY<STRUCT<p: STRING, q: ARRAY<STRING>>>"
)
MAPS = schema("a BIGINT, k MAP<STRING, DOUBLE>, ks MAP<STRING, ARRAY<DATE>>, b STRING")
"""pyarrow's reader has no maps."""
TOKENS = (
    "{", "}", "[", "]", ",", ":", '"', "\\", "null", "true", "fals", "NaN", "-Infinity", "Inf", "0", "-", ".", "e5",
    "1.0", "-0", "01", "+1", "1e400", '"a":1,', '"b":"x",', '"":0,', '"q":{"a":[1,{"b":null}]},', "[[[[1]]]]", "//",
    " ", "\t", "\n", "\r", "\0", "\x0b", "\x1f", "\x7f", "\ufeff", "\u2028", "é", "\U0001f600", "\\u0000", "\\ud800",
    "\\ud83d\\ude00", "\\udc00", "\\u00e9", "\\/", "\\x41", "co\\u0075nt",
)  # fmt: skip
BYTES = (b"\xff", b"\xc0\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\x80")
"""No UTF-8."""


def whole(bits: int) -> Callable[[random.Random], str]:
    """Draws whole numbers around those that so many bits hold."""
    limit = 1 << (bits - 1)

    def number_of(draw: random.Random) -> str:
        if draw.random() < 0.03:
            return str(draw.choice((limit, -limit, 10 * limit, -10 * limit)) + draw.choice((-1, 0, 1)))
        return str(draw.randrange(-limit, limit) >> draw.randrange(bits))

    return number_of


def real(draw: random.Random) -> str:
    """A number near what doubles and floats are rounded at."""
    match draw.randrange(20):
        case 0:
            return repr(draw.random() * 10 ** draw.uniform(-30, 30))
        case 1:  # halfway between two doubles, or nearly
            return str((draw.randrange(1 << 53, 1 << 54) | 1) * (1 << draw.randrange(10)) + draw.choice((-1, 0, 0, 1)))
        case 2:  # halfway between two floats, or nearly
            return repr(draw.choice((1, 0.5, 0.125)) * (draw.randrange(1 << 24, 1 << 25) | 1) + draw.choice((-1, 0, 0)))
        case 3:
            return f"{draw.randrange(10 ** draw.randrange(1, 20))}e{draw.randrange(-50, 30)}"
        case 4:
            return number(draw)
        case roll:
            return repr(round(draw.uniform(-1000, 1000), roll))


def day(draw: random.Random) -> int:
    return draw.randrange(1, 32 if draw.random() < 0.1 else 29)


def usual_time(draw: random.Random) -> str:
    year, second = draw.randrange(1, 10_000), draw.randrange(60)
    text = f"{year:04d}-{draw.randrange(1, 13):02d}-{day(draw):02d}{draw.choice('TTT ')}"
    text += f"{draw.randrange(24):02d}:{draw.randrange(60):02d}:{second:02d}"
    digits = draw.choice((0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 9, 12))
    text += f".{draw.randrange(10**digits):0{digits}d}" if digits else ""
    return json.dumps(text + draw.choice(("Z", "Z", "Z", "Z", "Z", "", "", "+00:00", "+00:00", "+01:00")))


def time(draw: random.Random) -> str:
    roll = draw.random()
    if roll < 0.2:
        return str(draw.choice((1700000000000, 253402300799999, -62135596800000)) + draw.choice((-1, 0, 1)))
    return usual_time(draw) if roll < 0.97 else json.dumps(moment(draw))


def text(draw: random.Random) -> str:
    if draw.random() < 0.1:
        return quoted(draw)
    letters = 'abcdefgh 0123"\\/\b\f\n\r\t\x7f\0é€\U0001f600\uffff'
    content = "".join(draw.choices(letters[: draw.choice((13, 13, 40))], k=draw.randrange(40)))
    return json.dumps(content, ensure_ascii=draw.random() < 0.5)


def date(draw: random.Random) -> str:
    year = draw.choice((1, 1900, 2000, 2024, 9999, draw.randrange(1, 10_000)))
    return f'"{year:04d}-{draw.randrange(1, 13):02d}-{day(draw):02d}"'


def unknown(draw: random.Random) -> str:
    return json.dumps({"x": [1, None, {}], "y": {"z": True}}) if draw.random() < 0.7 else value(draw)


def decimal(draw: random.Random) -> str:
    """A number of few digits, or of about as many as fit, as a number or a text."""
    places = draw.choice((0, 1, 2, 3, 3, 5, 18))
    digits = draw.choice((1, 2, 3, 9, 10, 20, 21, 38))
    text = f"{draw.choice(('', '', '-'))}{draw.randrange(10**digits)}"
    text += f".{draw.randrange(10**places):0{places}d}" if places else ""
    return draw.choice((text, text, f'"{text}"', number(draw) if draw.random() < 0.2 else text))


def base64_text(draw: random.Random) -> str:
    content = base64.b64encode(draw.randbytes(draw.randrange(9))).decode()
    return f'"{content if draw.random() < 0.95 else content[:-1]}"'


def member(draw: random.Random, make: Callable[[random.Random], str]) -> str:
    """A cell, or what is none."""
    return make(draw) if draw.random() < 0.97 else draw.choice(("null", fitting(draw)))


def array(make: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    def array_of(draw: random.Random) -> str:
        blank = draw.choice(("", "", " "))
        return (
            f"[{blank}{f'{blank},{blank}'.join(member(draw, make) for _ in range(draw.choice((0, 1, 2, 5))))}{blank}]"
        )

    return array_of


def members(cells: dict[str, Callable[[random.Random], str]]) -> Callable[[random.Random], str]:
    """Draws objects with some of these members, in any order, and perhaps with one twice."""

    def object_of(draw: random.Random) -> str:
        names = [name for name in cells if draw.random() < 0.7]
        if draw.random() < 0.2:
            draw.shuffle(names)
        if names and draw.random() < 0.02:
            names.append(names[0])
        if draw.random() < 0.1:
            names.insert(draw.randrange(len(names) + 1), "q?")
        blank = draw.choice(("", "", " ", "\n"))
        pairs = (f'"{name}"{blank}:{blank}{member(draw, cells.get(name, unknown))}' for name in names)
        return f"{{{blank}{f'{blank},{blank}'.join(pairs)}{blank}}}"

    return object_of


def keyed(make: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    """Draws objects with any names."""

    def object_of(draw: random.Random) -> str:
        names = [
            text(draw) if draw.random() < 0.5 else f'"{draw.randrange(9)}"' for _ in range(draw.choice((0, 1, 3, 80)))
        ]
        return f"{{{','.join(f'{name}:{member(draw, make)}' for name in names)}}}"

    return object_of


CELLS: dict[str, Callable[[random.Random], str]] = {
    "a": whole(64), "i": whole(32), "s": whole(16), "t": whole(8), "c": real, "h": real, "b": text,
    "name": text, "d": time, "n": time, "g": date, "été": text,
    "f": lambda draw: draw.choice(("true", "false")), "q": unknown,
    "m": decimal, "w": decimal, "y": base64_text, "l": array(whole(32)), "k": keyed(real), "ks": keyed(array(date)),
    "o": members({"x": whole(64), "t": text, "o": members({"z": decimal, "d": time, "f": lambda _: "true"})}),
    "ls": array(members({"p": text, "q": array(text)})), "v": lambda _: "null",
}  # fmt: skip


def record(draw: random.Random, columns: pa.Schema) -> bytes:
    """A record of some columns, and perhaps one that none is; most are good."""
    share = 4 / len(columns)
    names = [name for name in (*columns.names, "q") if draw.random() < share]
    if draw.random() < 0.2:
        draw.shuffle(names)
    blank = draw.choice(("", "", " ", "\n\t"))
    cells = (
        CELLS[name](draw) if draw.random() < 0.98 else draw.choice(("null", "null", fitting(draw))) for name in names
    )
    pairs = (f'"{name}"{blank}:{blank}{cell}' for name, cell in zip(names, cells, strict=True))
    return f"{blank}{{{blank}{f'{blank},{blank}'.join(pairs)}{blank}}}{blank}".encode(errors="surrogatepass")


def mutated(draw: random.Random, raw: bytes) -> bytes:
    """The record with bits flipped, bytes swapped, and parts left out, doubled or put in."""
    content = bytearray(raw)
    for _ in range(draw.choice((0, 0, 1, 1, 2, 4))):
        place, length = draw.randrange(len(content) + 1), draw.choice((1, 1, 2, 5, 20))
        part = content[place : place + length]
        match draw.randrange(7):
            case 0 if part:
                content[place] ^= 1 << draw.randrange(8)
            case 1:
                del content[place : place + length]
            case 2:
                content[place:place] = part
            case 3:
                content[place : place + len(part)] = part[::-1]
            case 4:
                content[place:place] = draw.choice(TOKENS).encode()
            case 5:
                content[place : place + length] = draw.choice((*BYTES, number(draw).encode(), quoted(draw).encode()))
            case _ if draw.random() < 0.1:
                del content[place:]
    return bytes(content)
