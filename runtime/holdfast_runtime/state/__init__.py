"""A task's state: a store on the local disk, and the durable copy it can be rebuilt from.

`opening` decides which of the two a batch starts from, `commit` brings a batch into both, in an order that survives
being killed anywhere. Must not know Spark, streams or steps: keys and values are bytes here.
"""
