"""The Kubernetes cluster, without knowing an app: the API client, the session of watches, nodes."""
