"""The Kubernetes objects of an app as trees: pods, ConfigMaps, NetworkPolicies, and what users may shape."""
