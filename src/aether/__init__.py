"""Aether: a service mesh and port manager. The tree is the architecture: see ARCHITECTURE.md."""
