"""The contract between operator, driver and CLI: attempt orders, assignments, reports, names, labels, facts of pods."""
