import msgspec
import pytest
from aiohttp import web

from aether.adapters.objects.kinds import ObjectKey
from aether.adapters.objects.store import Conflict, NotFound
from aether.api.problem import STATUS_BY_CODE, AgentAway, BadRequest, problem_of
from aether.errors import AetherError, Diagnostic, Rejected

CART = ObjectKey("Pod", "shop", "cart")


class Unheard(AetherError):
    code = "unheard-of"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BadRequest("no"), 400, "bad-request"),
        (NotFound(CART), 404, "not-found"),
        (Conflict(CART, "changed"), 409, "conflict"),
        (AgentAway("gone"), 503, "agent-away"),
        (Unheard("what"), 500, "unheard-of"),
        (web.HTTPNotFound(), 404, "no-such-path"),
        (web.HTTPMethodNotAllowed("PUT", ["GET"]), 405, "method-not-allowed"),
        (web.HTTPRequestEntityTooLarge(16, 17), 413, "body-too-large"),
        (msgspec.DecodeError("truncated"), 400, "bad-request"),
        (TimeoutError(), 504, "timed-out"),
        (KeyError("secret"), 500, "internal"),
    ],
)
def test_every_error_has_a_status_and_a_code(error: Exception, status: int, code: str) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.code, problem.type) == (status, code, f"urn:aether:error:{code}")


def test_a_rejection_carries_every_diagnostic() -> None:
    flaws = (Diagnostic(code="bad-port", message="no"), Diagnostic(code="bad-name", message="never"))
    assert problem_of(Rejected(flaws)).diagnostics == flaws
    assert problem_of(Rejected(flaws)).status == STATUS_BY_CODE["rejected"]


def test_a_defect_does_not_show_its_insides() -> None:
    assert "secret" not in problem_of(KeyError("secret")).detail
