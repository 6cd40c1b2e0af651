"""Who has which task: where assignments come from and reports go, in files or through the operator."""
