"""The only hands: actions of a decision, events, and the Lease that says which operator may act."""
