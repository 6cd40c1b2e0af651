"""Avro: its schemas, the columns that records of a schema have, and how values of one become the other's.

Pure, for planner and codec alike: what the planner accepts is what the codec can read. Must not touch bytes of records.
"""
