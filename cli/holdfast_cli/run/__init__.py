"""`holdfast run`: runs an app on this host and shows its progress."""
