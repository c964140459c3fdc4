"""Commands run as an ordinary user: nobody's groups, no capability, a home of their own.

The interpreter may stand where only root may go. Such a folder is covered, in a mount namespace of the command's own,
by an empty one that everybody may pass, with the interpreter back in its place. Nothing else is different for it.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.world import AETHER, Ran

from aether.adapters.paths import WorldPaths

UID = 65534
REPOSITORY = Path(__file__).parents[2]
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class OrdinaryUser:
    """A user with the folder `home` (and nothing else) to themselves."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env: Mapping[str, str] = {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "PATH": f"{Path(sys.executable).parent}:{_SYSTEM_PATH}",
            "NO_COLOR": "1",
        }

    def world(self, name: str) -> WorldPaths:
        return WorldPaths(name, runtime=self.home / "run" / "aether", state=self.home / ".local/state/aether")

    def run(self, *command: str, limit_s: float = 60.0, **env: str) -> Ran:
        done = subprocess.run(
            _as_user(command), env={**self.env, **env}, capture_output=True, text=True, timeout=limit_s, check=False
        )
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    def aether(self, *arguments: str, limit_s: float = 60.0) -> Ran:
        return self.run(AETHER, *arguments, limit_s=limit_s)

    def processes(self) -> list[int]:
        """Everything that runs as this user and has their home in its environment."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and f"HOME={self.home}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found


@contextlib.contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """A user for the block; whatever they leave is removed after it."""
    home = Path(tempfile.mkdtemp(prefix="user-", dir="/tmp"))
    (home / "run").mkdir(mode=0o700)
    for path in (home, home / "run"):
        os.chown(path, UID, UID)
    user = OrdinaryUser(home)
    try:
        yield user
    finally:
        for pid in user.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


def why_no_user_namespaces() -> str:
    """The kernel's reason why an ordinary user gets no user namespace; empty when they do."""
    made = subprocess.run(
        _as_user(("unshare", "--user", "--map-root-user", "--net", "true")), capture_output=True, text=True, check=False
    )
    return "" if made.returncode == 0 else made.stderr.strip()


def _as_user(command: tuple[str, ...]) -> list[str]:
    become = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--", *command)
    closed = {folder: path for path in _needed() if (folder := _closed_ancestor(path))}
    lines = ["set -e", *(line for folder, path in closed.items() for line in _open_up(folder, path))]
    script = "\n".join([*lines, f"exec {shlex.join(become)}"])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]


def _needed() -> tuple[Path, ...]:
    return (Path(sys.base_prefix), Path(sys.prefix), REPOSITORY)


def _closed_ancestor(path: Path) -> Path | None:
    """The outermost folder on the way that others may not pass."""
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)


def _open_up(folder: Path, path: Path) -> list[str]:
    """Cover `folder` and put `path` back. What is needed stands in no two closed folders."""
    covered, kept = shlex.quote(str(folder)), shlex.quote(str(path))
    return [
        "mount -t tmpfs -o mode=755 tmpfs /mnt",
        "mkdir /mnt/kept",
        f"mount --rbind {kept} /mnt/kept",
        f"mount -t tmpfs -o mode=755 tmpfs {covered}",
        f"mkdir -p {kept}",
        f"mount --rbind /mnt/kept {kept}",
        "umount -l /mnt",
    ]
