import ast
from pathlib import Path

from tools.check.reference import check_reference, codes_in, reasons_in
from tools.check.tree import Tree

SOURCE = """
class A(Error):
    code: ClassVar[str] = "class-code"

class B(Error):
    code = "other-code"

def f(*, code="default-code"):
    _Flaw("flaw-code", "text")
    Diagnostic(code="keyword-code", message="no-code")
    call("no-code", code=variable)
    Failure(word="failure-word", code="no-code")

class Reason(StrEnum):
    PORT = "a-reason"

METRIC = "aether_agent_misses_total"
"""


def findings(root: Path, **pages: str) -> list[str]:
    for folder in ("src/aether/model", "docs/reference"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "src/aether/a.py").write_text(SOURCE)
    (root / "src/aether/model/ports.py").write_text('A_PORT = 18001\n"""x"""\nB_LIMIT = 3\n')
    (root / "src/aether/model/settings.py").write_text("LIMIT = 1\nclass S:\n    idle_s: float = 1.0\n")
    for page, text in pages.items():
        (root / f"docs/reference/{page}.md").write_text(text)
    return sorted(finding.message.split(" is ")[0] for finding in check_reference(Tree.of_folder(root)))


ALL_CODES = "".join(
    f"| `{code}` | text |\n"
    for code in ("class-code", "other-code", "default-code", "flaw-code", "keyword-code", "failure-word", "a-reason")
)


def test_codes_are_found_wherever_they_are_spelled() -> None:
    module = ast.parse(SOURCE)
    assert {code for code, _ in codes_in(module)} == {
        "class-code",
        "other-code",
        "default-code",
        "flaw-code",
        "keyword-code",
        "failure-word",
    }
    assert [reason for reason, _ in reasons_in(module)] == ["a-reason"]


def test_everything_undocumented_is_found(tmp_path: Path) -> None:
    assert findings(tmp_path) == [
        "code 'a-reason'",
        "code 'class-code'",
        "code 'default-code'",
        "code 'failure-word'",
        "code 'flaw-code'",
        "code 'keyword-code'",
        "code 'other-code'",
        "fixed port 18001",
        "metric aether_agent_misses_total",
        "setting LIMIT",
        "setting S.idle_s",
    ]


def test_complete_pages_are_fine_and_a_code_that_is_gone_is_found(tmp_path: Path) -> None:
    complete = {
        "ports": "`18001`",
        "settings": "`LIMIT` `S.idle_s`",
        "metrics": "`aether_agent_misses_total`",
    }
    assert findings(tmp_path, errors=ALL_CODES, **complete) == []
    assert findings(tmp_path, errors=f"{ALL_CODES}| `gone-code` | text |\n", **complete) == ["code 'gone-code'"]
