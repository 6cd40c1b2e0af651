"""The control plane simulated whole: the operator's own code on one event loop with virtual time and one seed."""
