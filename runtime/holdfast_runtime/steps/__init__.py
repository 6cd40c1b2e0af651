"""The steps of the graph that run in Python: each takes whole batches of rows and gives whole batches back."""
