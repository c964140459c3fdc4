"""What Envoy does with a rendered snapshot: connection or request in, verdict with its reasons out."""

from aether.render.envoy.evaluate.evaluator import Evaluator
from aether.render.envoy.evaluate.request import Connection, Request, Spoken
from aether.render.envoy.evaluate.strict import Unsupported
from aether.render.envoy.evaluate.verdict import Verdict

__all__ = ["Connection", "Evaluator", "Request", "Spoken", "Unsupported", "Verdict"]
