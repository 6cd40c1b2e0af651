"""From graph to join sets to partition counts to a `Plan`, with every problem found."""
