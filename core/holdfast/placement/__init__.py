"""Where tasks run: locations, the assignment of tasks to processors, and the stores that keep placement records."""
