"""The Kubernetes-shaped object store of the single machine, and what reads manifests into it."""
