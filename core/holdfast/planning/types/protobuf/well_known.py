"""The texts of Google's own messages, which schemas import and no registry has."""

_HEAD = 'syntax = "proto3"; package google.protobuf; '
_WRAPPED = {
    "Double": "double",
    "Float": "float",
    "Int64": "int64",
    "UInt64": "uint64",
    "Int32": "int32",
    "UInt32": "uint32",
    "Bool": "bool",
    "String": "string",
    "Bytes": "bytes",
}
_STRUCT = """
message Struct { map<string, Value> fields = 1; }
message Value {
  oneof kind {
    NullValue null_value = 1; double number_value = 2; string string_value = 3; bool bool_value = 4;
    Struct struct_value = 5; ListValue list_value = 6;
  }
}
enum NullValue { NULL_VALUE = 0; }
message ListValue { repeated Value values = 1; }
"""
WELL_KNOWN = {
    "google/protobuf/any.proto": f"{_HEAD}message Any {{ string type_url = 1; bytes value = 2; }}",
    "google/protobuf/duration.proto": f"{_HEAD}message Duration {{ int64 seconds = 1; int32 nanos = 2; }}",
    "google/protobuf/empty.proto": f"{_HEAD}message Empty {{}}",
    "google/protobuf/field_mask.proto": f"{_HEAD}message FieldMask {{ repeated string paths = 1; }}",
    "google/protobuf/struct.proto": _HEAD + _STRUCT,
    "google/protobuf/timestamp.proto": f"{_HEAD}message Timestamp {{ int64 seconds = 1; int32 nanos = 2; }}",
    "google/protobuf/wrappers.proto": _HEAD
    + " ".join(f"message {name}Value {{ {kind} value = 1; }}" for name, kind in _WRAPPED.items()),
}
"""By the name that is imported."""
