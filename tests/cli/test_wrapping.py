"""Lines and tables that fit a width: words stay whole, nothing is lost, and a narrow terminal gets blocks."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from holdfast_cli.output.screen import console_for
from holdfast_cli.output.text_table import TextTable
from holdfast_cli.output.wrapping import UNLIMITED, flowing, paragraph

WORDS = st.lists(st.text("abé表-", min_size=1, max_size=30), min_size=1, max_size=20)
WIDTHS = st.integers(10, 60)


@given(words=WORDS, width=WIDTHS, indent=st.integers(0, 6))
def test_a_paragraph_keeps_its_words_and_its_width(words: list[str], width: int, indent: int) -> None:
    lines = paragraph(Text(" " * indent + " ".join(words)), width)
    assert " ".join(line.plain for line in lines).split() == words
    assert all(line.cell_len <= width or len(line.plain.split()) == 1 for line in lines)
    assert all(line.plain.startswith(" " * (indent + (2 if i else 0))) for i, line in enumerate(lines))


@given(parts=st.lists(WORDS, max_size=6), width=WIDTHS)
def test_parts_flow_and_none_is_lost(parts: list[list[str]], width: int) -> None:
    lines = flowing([Text(" ".join(part)) for part in parts], width, "  ")
    assert [word for line in lines for word in line.plain.split()] == [word for part in parts for word in part]


@given(rows=st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4), width=WIDTHS)
def test_a_table_fits_and_keeps_its_words(rows: list[tuple[list[str], ...]], width: int) -> None:
    table = TextTable("A", "B", "C", right=("B",))
    for row in rows:
        table.add(*map(" ".join, row))
    lines = printed(table, width)
    words = sorted(word for line in lines for word in line.split())
    cells = sorted(word for row in rows for cell in row for word in cell if cell != ["-"])
    assert [word for word in words if word not in "ABC-"] == [word for word in cells if word not in "ABC-"]
    assert all(Text(line).cell_len <= width or len(line.split()) <= 2 for line in lines)


def printed(table: TextTable, width: int) -> list[str]:
    file = io.StringIO()
    table.print(console_for(file, None, width))
    return file.getvalue().splitlines()


def test_three_widths_of_one_table() -> None:
    table = TextTable("STREAM", "RECORDS", "WHY", right=("RECORDS",))
    table.add("orders-of-the-shop", "5", "because somebody has set it in the spec")
    table.add("totals", "12", "-")
    assert printed(table, 80) == [
        "STREAM              RECORDS  WHY",
        "orders-of-the-shop        5  because somebody has set it in the spec",
        "totals                   12  -",
    ]
    assert printed(table, 56) == [
        "STREAM              RECORDS  WHY",
        "orders-of-the-shop        5  because somebody has set it",
        "                             in the spec",
        "totals                   12  -",
    ]
    assert printed(table, 40) == [
        "STREAM orders-of-the-shop",
        "  RECORDS 5",
        "  WHY because somebody has set it in",
        "    the spec",
        "STREAM totals",
        "  RECORDS 12",
    ]


def test_without_a_terminal_even_the_longest_row_is_one_line() -> None:
    table = TextTable("STREAM", "WHY")
    table.add("totals", "word " * 9_000)
    assert len(printed(table, UNLIMITED)) == 2
    assert len(paragraph(Text("word " * 9_000), UNLIMITED)) == 1


def test_what_is_copied_stays_on_its_line() -> None:
    table = TextTable("OUTPUT", "LOOK")
    table.add("totals", Text("holdfast tail app.yaml totals --from-beginning", no_wrap=True))
    assert printed(table, 30) == ["OUTPUT totals", "  LOOK holdfast tail app.yaml totals --from-beginning"]
