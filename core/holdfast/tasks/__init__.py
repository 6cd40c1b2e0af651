"""From stream partitions to tasks, and how tasks stay the same when streams grow; the placement record."""
