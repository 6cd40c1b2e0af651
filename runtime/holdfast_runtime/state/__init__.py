"""A task's state as bytes: the LMDB store on the local disk with undo, and the durable copy it can be rebuilt from.

`opening` decides which of the two a batch starts from, `commit` brings a batch into both, in an order that survives
being killed anywhere. Must not know Spark, streams or steps: keys and values are bytes here.
"""
