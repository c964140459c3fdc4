"""Composition roots: one file per process."""
