"""The steps of an app compiled into as few segments as possible: Python and Spark SQL by turns.

`graph` decides what runs where, `union` is how rows travel between segments, `sql` is what a Spark SQL segment does.
Must not know streams, state or tasks' whereabouts.
"""
