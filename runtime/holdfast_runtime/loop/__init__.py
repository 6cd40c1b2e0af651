"""The batch loop: the query, its source, what the next batch reads, what tasks wait for."""
