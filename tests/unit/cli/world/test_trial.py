from aether.cli.world.trial import RULES, try_rules
from aether.errors import AetherError
from aether.model.world import CheckVerdict


def test_each_ruleset_that_the_kernel_refuses_fails_with_its_words() -> None:
    def apply(text: str) -> None:
        if "tproxy" in text:
            raise AetherError("Error: Could not process rule: No such file or directory\nmore")

    failed, *fine = try_rules(apply)
    assert (failed.verdict, failed.why) == (
        CheckVerdict.FAILED,
        "Error: Could not process rule: No such file or directory",
    )
    assert failed.advice
    assert len(fine) == len(RULES) - 1
    assert all(check.verdict is CheckVerdict.OK for check in fine)
