"""The Kubernetes operator. Imports the core, never the runtime, and never starts a JVM."""
