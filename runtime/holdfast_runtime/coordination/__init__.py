"""Coordination of a run: assignments of tasks, the placement record and reports, in files or through the operator."""
