"""Protobuf messages, as producers with or without a schema registry write them, into columns and back.

The planner has made a program of what a message means for the columns: here it is followed, by loops in C, or by the
judge and the plain writer, which are the law and give the reasons.
"""

from holdfast_runtime.streams.codecs.protobuf.protobuf_codec import ProtobufCodec

__all__ = ["ProtobufCodec"]
