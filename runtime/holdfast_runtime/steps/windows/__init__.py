"""The verb `aggregate`: partials of keys, in panes, sessions, or all time, and how far these were closed."""
