"""Where assignments come from and reports go to: on a laptop to files, on a cluster to the operator."""
