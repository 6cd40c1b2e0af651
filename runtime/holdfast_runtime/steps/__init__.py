"""The steps that run in Python, a directory for each kind of verb: batches of rows in, batches of rows out."""
