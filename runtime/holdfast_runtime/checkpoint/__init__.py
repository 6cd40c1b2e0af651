"""The checkpoint of a run: its offsets, Spark's logs of them, their copy, and the owner of its files."""
