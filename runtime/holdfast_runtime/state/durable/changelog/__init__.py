"""Small objects as records of a log that processes share, and large ones in the storage beside it."""
