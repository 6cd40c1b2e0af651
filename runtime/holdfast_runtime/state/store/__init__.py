"""The local store of a task: LMDB with undo, and whether what lies there can be trusted. Knows no sorted rows."""
