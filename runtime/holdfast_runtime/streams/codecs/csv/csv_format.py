"""How the fields of a stream's lines are separated, and what of them is null.

Must not know columns.
"""

from dataclasses import dataclass

QUOTE = '"'
LINE_BREAKS = "\r\n"
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How lines are written."""

    delimiter: str = ","
    null: str = ""
    """What stands for null where it is not in quotes. It has neither quotes, delimiters nor line breaks."""
