"""What becomes of a table's local store, where its reading starts, when it is loaded, which version is read."""
