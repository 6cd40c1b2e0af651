"""A run read from outside, whether it is stopped or goes on: its positions, its streams, the state of its tasks.

`holdfast state`, `offsets`, `streams` and `tail` show what these modules return, `TestDriver` and the benchmarks ask
them too: commands parse and print, and how a store, a log or a checkpoint is read stands here. Must not write anything
but temporary copies, lock what a run uses, start Spark, or print.
"""
