"""`holdfast run`: an app on this host, watched from its first to its last line."""
