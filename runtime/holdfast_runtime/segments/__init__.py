"""The steps of an app compiled into as few segments as possible, which alternate between Python and Spark SQL.

`compiling` decides what runs where and makes the `graph`, `union` is how rows travel between segments, `sql` runs a
Spark SQL segment. Must not know streams, state or where tasks run.
"""
