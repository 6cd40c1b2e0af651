"""The contract of operator, driver and CLI: attempt, assignment, report, names, labels, pods; defined nowhere else."""
