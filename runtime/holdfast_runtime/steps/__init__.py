"""The steps of the graph that run in Python, one file per verb: whole batches of rows in, whole batches out."""
