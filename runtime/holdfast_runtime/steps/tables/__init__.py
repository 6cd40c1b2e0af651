"""The verbs `toTable` and `lookup`: the rows of a table in one task, and what a look-up puts out."""
