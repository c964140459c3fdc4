"""Worlds: starting one, ending one, and what the host must have."""
