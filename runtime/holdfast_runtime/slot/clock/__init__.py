"""How far event time is for a task in a batch, row by row where timers need it."""
