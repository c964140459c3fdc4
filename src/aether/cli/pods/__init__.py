"""Pods: their logs, and commands in them."""
