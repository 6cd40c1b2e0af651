"""The Kubernetes objects of an app as trees: pods, ConfigMaps, NetworkPolicies, and the limits of users' templates."""
