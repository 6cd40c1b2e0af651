"""Commands on local data: streams, feed, tail, offsets."""
