"""Tables that all tasks of a location read."""
