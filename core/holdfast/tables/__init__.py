"""Tables: whether the local store is used, where reading starts, when a table is loaded, which version is read."""
