"""Rows sorted by the hash of their key, in pieces that are merged as they grow: values of a table."""
