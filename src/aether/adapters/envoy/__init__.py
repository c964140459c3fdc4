"""Envoy as a process and as an xDS client."""
