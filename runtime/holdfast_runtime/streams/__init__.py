"""Streams: the protocol by which records are read and written, and the systems that speak it."""
