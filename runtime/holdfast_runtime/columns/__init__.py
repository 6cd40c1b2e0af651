"""Loops over whole columns that stateful steps stand on: keys, their hashes, sorting, finding, grouping."""
