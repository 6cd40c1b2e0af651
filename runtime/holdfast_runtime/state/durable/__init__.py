"""The durable copy of a task's state: deltas, snapshots, and the store that is rebuilt from them."""
