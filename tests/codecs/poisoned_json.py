"""Records of JSON, mutated in what is known to hurt: numbers, times, escapes, nesting, bytes."""

import json
import random
from collections.abc import Callable

Make = Callable[[random.Random], bytes | None]


def digits(draw: random.Random) -> str:
    count = draw.choice((1, 1, 2, 3, 5, 8, 18, 19, 20, 21, 22, 29, 37, 38, 39, 47, 48, 49, 60, 77, 120, 400))
    return draw.choice(("0", "9", "1", "")) * draw.randrange(count) + str(draw.randrange(10**count))


def number(draw: random.Random) -> str:
    """What is lexically a number, or nearly."""
    text = draw.choice(("", "", "", "-", "+")) + digits(draw)
    if draw.random() < 0.5:
        text += "." + draw.choice(("", "0" * draw.randrange(90), "00", "")) + digits(draw)
    if draw.random() < 0.4:
        power = draw.choice((0, 1, 5, 9, 10, 28, 29, 30, 31, 38, 39, 41, 76, 77, 80, 99, 308, 400, 2**31, 999999999))
        text += draw.choice("eE") + draw.choice(("", "+", "-", "-", "-")) + draw.choice(("", "0", "00")) + str(power)
    return text


def moment(draw: random.Random) -> str:
    year = draw.choice((-1, 0, 1, 2, 1969, 1970, 2024, 9999, 10000, 99999, draw.randrange(12000)))
    text = f"{year:04d}-{draw.randrange(14):02d}-{draw.randrange(33):02d}"
    if draw.random() < 0.8:
        text += draw.choice("T  t_") + f"{draw.randrange(26):02d}:{draw.randrange(62):02d}"
        text += draw.choice(("", f":{draw.randrange(62):02d}"))
        text += draw.choice(("", "", ".", "." + str(draw.randrange(10 ** draw.randrange(1, 13)))))
        text += draw.choice(("", "Z", "Z", "z", "+01:00", "-2359", "+24:00", "+99", " UTC", "+00:00"))
    return text


TEXTS = (
    "NaN", "Infinity", "-INF", "Inf", "AAE=", "AA", "", "x", "é\U0001f600", "1_0", " 1", "0x10", "1e", ".", "\x7f",
    "null", "true", "2024-02-29", "123e4567-e89b-12d3-a456-426614174000",
)  # fmt: skip


def text(draw: random.Random) -> str:
    return draw.choice((moment(draw), moment(draw), number(draw), *TEXTS))


def quoted(draw: random.Random) -> str:
    """A string of JSON, with some characters written in other ways."""
    raw = json.dumps(text(draw), ensure_ascii=draw.random() < 0.5)[1:-1]
    if draw.random() < 0.15:
        raw = "".join(f"\\u{ord(one):04x}" if draw.random() < 0.4 and one.isalnum() else one for one in raw)
    if draw.random() < 0.05:
        raw += draw.choice(("\\ud800", "\\udc00\\ud800", "\\u0000", "\\", "\n", "\t", "\0", "\\x41", "\\/"))
    return f'"{raw}"'


def value(draw: random.Random, depth: int = 0) -> str:
    """Any JSON value, or what is none."""
    roll = draw.random()
    if roll < 0.35:
        return number(draw)
    if roll < 0.65:
        return quoted(draw)
    if roll < 0.85 or depth > 3:
        return draw.choice(
            (
                "null",
                "true",
                "false",
                "NaN",
                "Infinity",
                "-Infinity",
                "Inf",
                "-Inf",
                "{}",
                "[]",
                "nul",
                "1 2",
                "",
                "'x'",
            )
        )
    if roll < 0.93:
        return "[" + ",".join(value(draw, depth + 1) for _ in range(draw.randrange(4))) + "]"
    return members(draw, "xyzgab", depth + 1)


def members(draw: random.Random, names: str, depth: int = 0) -> str:
    pairs = (f'"{draw.choice(names)}":{fitting(draw) if draw.random() < 0.3 else value(draw, depth)}' for _ in range(4))
    return "{" + draw.choice((",", ",", ", ", " ,\n")).join(list(pairs)[: draw.randrange(5)]) + "}"


FITTING = (
    "1", "12.5", "-0", "0.001", "null", '"2024-01-31T12:00:00.5Z"', '"2024-01-31"', "1700000000000", "1700000000000000",
    "253402300799999", "253402300800000", "-62135596800000", "-62135596800001", '{"x":[1,null]}', '{"y":"1.5"}',
    '{"z":["2024-01-31T00:00:00Z",1700000000000]}', '"AAE="', "1e-05", "99999999.99", "1.0e2", '"0000-12-31"',
    '"0000-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', '{"z":[1700000000000000]}',
)  # fmt: skip
"""Values that fit many columns."""


def fitting(draw: random.Random) -> str:
    return draw.choice(FITTING)


def of_json(names: str) -> Make:
    def make(draw: random.Random) -> bytes | None:
        roll = draw.random()
        if roll < 0.01:
            return None
        if roll < 0.02:
            depth = draw.choice((399, 400, 401, 900, 1100, 20_000))
            opened = draw.choice(("[", '{"a":'))
            closed = "]" if opened == "[" else "}"
            return f'{{"q":{opened * depth}1{closed * depth}}}'.encode()
        if roll < 0.025:
            return f'{{"{draw.choice(names)}":{draw.choice("19")}{draw.choice("05") * 100_000}}}'.encode()
        if roll < 0.03:
            return f'{{"{"k" * 100_000}":1,"a":1}}'.encode()
        raw = members(draw, names + "q").encode(errors="surrogatepass")
        if roll < 0.2:
            raw = damaged(draw, raw)
        return raw

    return make


def damaged(draw: random.Random, raw: bytes) -> bytes:
    """Some bytes flipped, left out, put in or doubled."""
    content = bytearray(raw)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(content) + 1)
        match draw.randrange(5):
            case 0:
                content[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del content[at : at + draw.randrange(1, 4)]
            case 2:
                content[at:at] = draw.choice(
                    (b"{", b"}", b'"', b",", b":", b"\\", b"\xff", b"\0", b"\xed\xa0\x80", b"e-99")
                )
            case 3:
                content[at:at] = content[: draw.randrange(len(content) + 1)]
            case _:
                del content[at:]
    return bytes(content)


def of_text(draw: random.Random) -> bytes | None:
    if draw.random() < 0.05:
        return None
    raw = text(draw).encode()
    return damaged(draw, raw) if draw.random() < 0.5 else raw
