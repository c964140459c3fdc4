"""Golden files: text that is compared with a committed file, or rewrites it when asked to."""

from pathlib import Path


class Golden:
    """Compare text with a committed file, or rewrite the file when asked to."""

    def __init__(self, *, rewrite: bool) -> None:
        self._rewrite = rewrite

    def check(self, path: Path, text: str) -> None:
        if self._rewrite:
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run `make golden` and read the diff"
        assert text == path.read_text(), f"{path} differs: run `make golden` and read the diff"


def cases(folder: Path) -> list[Path]:
    """The cases of one stage: every folder with an `in.yaml`, by name."""
    return sorted(path.parent for path in folder.glob("*/in.yaml"))
