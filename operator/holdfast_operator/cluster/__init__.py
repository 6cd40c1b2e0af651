"""Access to the Kubernetes cluster, without knowledge of apps: the API client, the session of watches, nodes."""
