"""The embedded log: streams in files of one host, each partition an LMDB environment."""
