import pytest

from aether.adapters.paths import BadWorldName
from aether.cli.failure import ApiRefusal, NoWorld, SeveralWorlds, WrongUsage, exit_code_of
from aether.errors import AetherError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoWorld("none"), 1),
        (WrongUsage("what"), 2),
        (SeveralWorlds(("a", "b")), 2),
        (BadWorldName("/"), 2),
        (AetherError("x"), 1),
        (ApiRefusal(problem_code="rejected", detail="", diagnostics=(), status=422), 2),
        (ApiRefusal(problem_code="agent-away", detail="", diagnostics=(), status=503), 1),
    ],
)
def test_wrong_words_end_with_two_and_failures_with_one(error: AetherError, code: int) -> None:
    assert exit_code_of(error) == code
