"""Processes of a world, as the host sees them."""

import time
from collections.abc import Iterable
from pathlib import Path

from aether.adapters.paths import WorldPaths


def processes_of(paths: WorldPaths, *words: str) -> list[int]:
    """The world's processes (its first one and what descends from it) with all `words` in their command line."""
    parents, lines = _table()
    roots = {pid for pid, line in lines.items() if f'"name":"{paths.name}"' in line}
    return sorted(
        pid for pid, line in lines.items() if _descends(pid, roots, parents) and all(word in line for word in words)
    )


def identities(pids: Iterable[int]) -> set[tuple[int, str]]:
    """Each process with its start time, which tells it from a later one of the same number."""
    return {(pid, _stat(pid)[19]) for pid in pids if _stat(pid)}


def wait_gone(those: set[tuple[int, str]], *, limit_s: float = 10.0) -> None:
    """Until none of the processes is left."""
    deadline = time.monotonic() + limit_s
    while left := {one for one in those if (fields := _stat(one[0])) and fields[19] == one[1] and fields[0] != "Z"}:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)


def _table() -> tuple[dict[int, int], dict[int, str]]:
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            parents[int(entry.name)] = int(fields[1])
            try:
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
    return parents, {pid: line for pid, line in lines.items() if line}


def _descends(pid: int, roots: set[int], parents: dict[int, int]) -> bool:
    while pid:
        if pid in roots:
            return True
        pid = parents.get(pid, 0)
    return False


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on (proc(5)); none if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
