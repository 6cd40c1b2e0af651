"""Protobuf: its schemas as text, the columns that a message has, and how values of one become the other's.

Pure, for planner and codec alike: what the planner accepts is what the codec can read. Must not touch bytes of records.
"""
