"""What a turn reads: records of inputs and side inputs, decoded, with control messages told apart from rows."""
