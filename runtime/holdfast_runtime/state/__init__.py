"""The state of one task as bytes: an LMDB store on the local disk with undo, and the durable copy it is rebuilt from.

`durable.restore` decides from which of the two a batch starts. `commit` writes a batch to both, in an order that
survives a kill at any point. Must not know Spark, streams or steps: keys and values are bytes here.
"""
