"""Messages of Protobuf and objects of JSON Schema, read and written: `python -m bench.protobuf`."""
