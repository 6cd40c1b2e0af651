"""Records of Avro, read and written: `python -m bench.avro`."""
