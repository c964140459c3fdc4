"""The Kubernetes-shaped object store of one machine."""
