"""Lines of comma separated values into columns and back: RFC 4180, with a field for each column in their order.

An empty field is null, and one in quotes an empty text. Loops in C read and write them, or the judge and the plain
writer, which are the law and give the reasons.
"""

from holdfast_runtime.streams.codecs.csv.csv_codec import CsvCodec

__all__ = ["CsvCodec"]
