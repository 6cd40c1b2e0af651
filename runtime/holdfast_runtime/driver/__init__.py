"""An attempt's life: spec in, query running, growth, chores, termination."""
