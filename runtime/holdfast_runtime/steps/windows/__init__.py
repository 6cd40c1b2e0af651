"""What an `aggregate` step keeps: partials of keys, in panes, sessions, or all time, and how far these were closed."""
