"""Tasks: grouping of stream partitions, how tasks stay the same when streams grow, and the placement record."""
