"""How many apps one operator can look after, on a real API server."""
