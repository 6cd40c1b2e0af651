"""The verb `join`: what it matches, its incoming rows, what waits, and what comes out."""
