"""What becomes of a pod's request, for people: the evaluator's verdict with what comes before and after Envoy."""

from aether.render.explain.explanation import explain
from aether.render.explain.seen import SeenFailure, seen_failures

__all__ = ["SeenFailure", "explain", "seen_failures"]
