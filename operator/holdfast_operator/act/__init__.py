"""Effects on the cluster: actions of a decision, events, and the Lease that says which operator may act."""
