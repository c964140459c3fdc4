"""Pods of one machine: sandboxes, containers, probes."""
