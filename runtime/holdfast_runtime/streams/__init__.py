"""Streams: the protocol for reading and writing records, and the systems that implement it."""
