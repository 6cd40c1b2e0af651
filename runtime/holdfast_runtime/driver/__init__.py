"""The life of an attempt: spec in, query running, growth, chores, termination."""
