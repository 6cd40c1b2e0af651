"""Commands on the data of this host: streams, feed, tail, offsets, state."""
