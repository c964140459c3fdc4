from collections.abc import Callable
from pathlib import Path

from aether.adapters.clock import ManualClock
from aether.api.logtail import POLL_S, tail_log


async def whole(path: Path, lines: int | None) -> bytes:
    return b"".join([chunk async for chunk in tail_log(path, lines=lines, is_following=None, clock=ManualClock())])


async def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert await whole(tmp_path / "main.log", None) == b""


async def test_the_older_part_comes_first_and_the_last_lines_span_both(tmp_path: Path) -> None:
    (tmp_path / "main.log.1").write_bytes(b"one\ntwo\n")
    (tmp_path / "main.log").write_bytes(b"three\nfour")
    assert await whole(tmp_path / "main.log", None) == b"one\ntwo\nthree\nfour"
    assert await whole(tmp_path / "main.log", 3) == b"two\nthree\nfour"
    assert await whole(tmp_path / "main.log", 0) == b""


class Script(ManualClock):
    """Does the next thing whenever a follower waits, until nothing is left to do; then the pod is gone."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        super().__init__()
        self._acts = list(acts)

    async def sleep(self, seconds: float) -> None:
        assert seconds == POLL_S
        self._acts.pop(0)()

    def is_following(self) -> bool:
        return bool(self._acts)


async def followed(path: Path, script: Script) -> list[bytes]:
    return [chunk async for chunk in tail_log(path, lines=1, is_following=script.is_following, clock=script)]


async def test_what_is_appended_later_is_followed_through_a_renaming(tmp_path: Path) -> None:
    log = tmp_path / "main.log"
    log.write_bytes(b"older\nold\n")

    def rename() -> None:
        with log.open("ab") as writer:
            writer.write(b"last of this file\n")
        log.rename(tmp_path / "main.log.1")
        log.write_bytes(b"first of the next\n")

    with log.open("ab", buffering=0) as writer:
        script = Script(lambda: writer.write(b"new\n"), lambda: None, rename, lambda: None)
        assert await followed(log, script) == [b"old\n", b"new\n", b"last of this file\n", b"first of the next\n"]


async def test_a_log_that_begins_later_is_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "main.log"
    script = Script(lambda: None, lambda: log.write_bytes(b"hello\n"))
    assert await followed(log, script) == [b"hello\n"]
