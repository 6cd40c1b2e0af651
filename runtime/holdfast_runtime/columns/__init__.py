"""Work on whole Arrow columns that knows nothing of streams, steps or state: hashing, sorting, probing."""
