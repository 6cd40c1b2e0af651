"""Rows sorted by the hash of their key, in pieces that are merged as they grow. Knows no store: pieces are values of a table."""
