"""Planning: from the graph of an app over join sets and partition counts to a `Plan`, with every problem found."""
