"""Say what this machine lacks for a world, by making a small one: a node, a pod, and the rules of both.

Nothing is guessed from versions or configuration: what works here is what works.
"""

import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from aether.adapters.kernel import links
from aether.adapters.kernel.conntrack import delete_udp_flows
from aether.adapters.kernel.nft import Nft, NftMissing
from aether.adapters.kernel.world import WorldRefused, spawn_world, wait_world
from aether.errors import AetherError, Diagnostic
from aether.model.ports import Transport
from aether.plan.capture import CLOSED
from aether.plan.routing import Backend, RoutingPlan, ServiceRoute, UdpFlow
from aether.render.nft import render_capture, render_routing

_FREE_BYTES = 64 << 20
"""Below this a world's state and logs do not fit for long."""
_UID = "probe"
_ROUTE = ServiceRoute("10.96.0.10", Transport.UDP, 53, (Backend("10.243.0.1", 18054),))

_Probe = Callable[[Path, Path], object]


def diagnose_world(folders: Iterable[Path] = ()) -> list[Diagnostic]:
    """Everything that keeps this user from running a world here; empty if nothing does. Takes about half a second.

    `folders` are where its state and sockets will be: they must be writable and have room. Main thread only.
    """
    found = [*_diagnose_programs(), *(problem for folder in folders for problem in _diagnose_folder(folder))]
    with tempfile.TemporaryDirectory(prefix="aether-probe-") as scratch, tempfile.TemporaryFile() as output:
        argv = (sys.executable, "-P", "-m", "aether.adapters.kernel.diagnose", scratch)
        try:
            status = wait_world(spawn_world(argv, name="probe", netns_dir=Path(scratch), log=output))
        except WorldRefused as refused:
            return [*found, refused.diagnostic]
        output.seek(0)
        said = output.read()
    if status != 0:
        words = said.decode(errors="replace").strip().splitlines()[-1:] or ["no word"]
        return [*found, Diagnostic(code="world-probe", message=f"the probe inside a world failed: {words[0]}")]
    return [*found, *msgspec.json.decode(said, type=list[Diagnostic])]


def _diagnose_programs() -> list[Diagnostic]:
    if shutil.which("nsenter") is None:
        return [Diagnostic(code="world-nsenter", message="`nsenter` is missing: install util-linux")]
    return []


def _diagnose_folder(folder: Path) -> list[Diagnostic]:
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        message = f"{folder} cannot be written by this user ({nearest} is not theirs)"
        return [Diagnostic(code="world-folder", message=message, where=str(folder))]
    room = os.statvfs(nearest)
    free_bytes = room.f_bavail * room.f_frsize
    if free_bytes < _FREE_BYTES or (room.f_files and not room.f_favail):
        message = f"the file system is full: {free_bytes >> 20} MiB and {room.f_favail} files left, 64 MiB are needed"
        return [Diagnostic(code="world-disk-full", message=message, where=str(folder))]
    return []


def _probe(scratch: Path) -> list[Diagnostic]:
    """Inside the world: the first thing that does not work. What builds on it is not tried."""
    node, pod = scratch / "node", scratch / "pod"
    if not Path("/proc/sys/net/ipv6").exists():
        message = "the kernel has no IPv6: boot without ipv6.disable=1 (a world's pods have both families)"
        return [Diagnostic(code="world-ipv6", message=message)]
    for code, advice, probe in _STEPS:
        if problem := _try(code, advice, functools.partial(probe, node, pod)):
            return [problem]
    return []


def _try(code: str, advice: str, step: Callable[[], object]) -> Diagnostic | None:
    try:
        step()
    except NftMissing as error:
        message = f"{error}; install it: apt install libnftables1, dnf install nftables, apk add nftables"
        return Diagnostic(code="world-nft", message=message)
    except AetherError as error:
        return Diagnostic(code=code, message=f"{advice} ({error})")
    return None


def _probe_links(node: Path, pod: Path) -> None:
    links.build_fabric()
    links.add_node(1, node)
    sources = links.node_addresses(1)
    links.add_pod(node, pod, _UID, ("10.244.1.2", "fd00:244:1::2"), sources=sources)


def _probe_capture(_node: Path, pod: Path) -> None:
    with Nft(pod) as nft:
        nft.apply(render_capture(CLOSED))


def _probe_routing(node: Path, _pod: Path) -> None:
    with Nft(node) as nft:
        nft.apply(render_routing(RoutingPlan(routes=(_ROUTE,), refused=("10.96.0.0/16",))))


def _probe_conntrack(node: Path, _pod: Path) -> None:
    delete_udp_flows(node, [UdpFlow(_ROUTE.address, _ROUTE.port, _ROUTE.backends[0])])


_STEPS: tuple[tuple[str, str, _Probe], ...] = (
    ("world-nft-library", "libnftables does not work here", lambda *_: Nft().close()),
    (
        "world-links",
        "virtual links, sysctls or basic nftables rules are not available: as root, "
        "modprobe veth nf_tables nft_fib_inet nft_reject_inet",
        _probe_links,
    ),
    (
        "world-tproxy",
        "the kernel takes no TPROXY rule: as root, modprobe nft_tproxy nft_ct nf_conntrack (CONFIG_NFT_TPROXY)",
        _probe_capture,
    ),
    (
        "world-nat",
        "the kernel takes no NAT rule: as root, modprobe nft_nat nft_chain_nat nft_masq nft_numgen (CONFIG_NFT_NAT)",
        _probe_routing,
    ),
    (
        "world-conntrack",
        "conntrack cannot be read: as root, modprobe nf_conntrack_netlink (CONFIG_NF_CT_NETLINK)",
        _probe_conntrack,
    ),
)


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(_probe(Path(sys.argv[1]))).decode())
