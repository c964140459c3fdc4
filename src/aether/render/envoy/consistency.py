"""Faults of a snapshot that Envoy accepts without a word, or answers by an outage."""

from collections.abc import Mapping

from aether.render.envoy.resource import Resource


def consistency(snapshot: Mapping[str, Mapping[str, Resource]]) -> list[str]:
    """What is wrong, in words; empty for a sound snapshot."""
    return []
