"""The wires of one world: fabric, nodes and pods, routed (no bridge), IPv4 and IPv6.

    fabric netns ── veth ── node netns ── veth ── pod netns

Each end of a veth has a fixed hardware address and a static neighbour for the other end, so nothing is ever resolved:
no ARP, no neighbour discovery, no duplicate address detection, no first packet that waits. Every namespace has a
default route towards the fabric. Node addresses are 10.243.0.<n> and fd00:243::<n>, pod ranges 10.244.<n>.0/24 and
fd00:244:<n>::/64.

Every function here blocks for milliseconds: call it in a worker thread. Each may be repeated.
"""

import contextlib
import errno
import hashlib
import os
import socket
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from aether.adapters.kernel.netns import create_netns, delete_netns, in_netns, is_netns
from aether.adapters.kernel.nft import Nft
from aether.adapters.kernel.syscall import KernelError

CAPTURE_TABLE = 100
"""The routing table of packets that the capture rules marked: they are delivered locally."""
CAPTURE_MARK = 0x1
"""The bit of the packet mark that means captured."""
POD_LINK_PREFIX = "pod-"
"""What the node's ends of pod links begin with; nftables rules match on it."""
FABRIC_ADDRESSES = ("10.243.255.254", "fd00:243::ffff:fffe")

_DEAD_ENDS = """
add table inet roads
delete table inet roads
table inet roads {
  chain pre {
    type filter hook prerouting priority filter; policy accept;
    fib daddr oif exists accept
    fib daddr type { local, broadcast, anycast, multicast } accept
    meta l4proto tcp reject with tcp reset
    reject with icmpx no-route
  }
}
"""
"""Nothing leads there: said at once. ICMP alone lets a TCP dial over IPv6 wait a second."""

_GATEWAYS: dict[int, str] = {socket.AF_INET: "169.254.1.1", socket.AF_INET6: "fe80::1"}
_ANYWHERE: dict[int, str] = {socket.AF_INET: "0.0.0.0/0", socket.AF_INET6: "::/0"}
_WIDTH: dict[int, int] = {socket.AF_INET: 32, socket.AF_INET6: 128}
_NEAR = "02:ae:00:00:00:01"  # the end towards the fabric
_FAR = "02:ae:00:00:00:02"
_FAR_NAME = "eth0"
_NO_DAD = 0x02  # IFA_F_NODAD
_PERMANENT = 0x80  # NUD_PERMANENT
_LOCAL_TABLE = 255  # RT_TABLE_LOCAL
_LOOPBACK = 1  # the loopback's index in every namespace
_FAR_INDEX = 2

_COMMON_SYSCTLS = (
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/lo/rp_filter", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv4/icmp_ratelimit", "0"),
    ("net/ipv6/icmp/ratelimit", "0"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
)
_ROUTER_SYSCTLS = (("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1"))
_POD_SYSCTLS = (("net/ipv4/ip_unprivileged_port_start", "0"), ("net/ipv4/ping_group_range", "0 0"))


def node_addresses(index: int) -> tuple[str, str]:
    """The addresses of node number `index` (1 to 254)."""
    return f"10.243.0.{index}", f"fd00:243::{index:x}"


def pod_ranges(index: int) -> tuple[str, str]:
    """Where the pods of node number `index` have their addresses."""
    return f"10.244.{index}.0/24", f"fd00:244:{index:x}::/64"


def build_fabric() -> None:
    """Make the calling thread's namespace the fabric: a router that knows its nodes and refuses the rest at once."""
    _write_sysctls((*_COMMON_SYSCTLS, *_ROUTER_SYSCTLS))
    with Nft() as nft:
        nft.apply(_DEAD_ENDS)
    with _netlink() as link:
        link.link("set", index=_LOOPBACK, state="up")
        for address in FABRIC_ADDRESSES:
            _put_address(link, _LOOPBACK, address)


def add_node(index: int, netns: Path) -> None:
    """Make the namespace of node number `index` at `netns` and wire it to the fabric: the calling thread's own."""
    _prepare(netns, _ROUTER_SYSCTLS)
    addresses = node_addresses(index)
    with _netlink() as link:
        near = _put_veth(link, f"node-{index}", netns)
        for address, pods in zip(addresses, pod_ranges(index), strict=True):
            _put_near_routes(link, near, address, FABRIC_ADDRESSES)
            _put_route(link, dst=pods, oif=near, gateway=address, flags="onlink")
    with Nft(netns) as nft:
        nft.apply(_DEAD_ENDS)
    with in_netns(netns), _netlink() as link:
        _put_far_end(link, addresses)
        for pods in pod_ranges(index):
            _put_route(link, dst=pods, type="unreachable")


def remove_node(index: int, netns: Path) -> None:
    """Cut node number `index` off the fabric, the calling thread's namespace, and let go of its namespace."""
    with _netlink() as link:
        _delete_link(link, f"node-{index}")
    delete_netns(netns)


def add_pod(node_netns: Path, pod_netns: Path, uid: str, addresses: Iterable[str], *, sources: Iterable[str]) -> None:
    """Make a pod's namespace at `pod_netns` and wire it to its node. `sources` are the node's own addresses."""
    _prepare(pod_netns, _POD_SYSCTLS)
    addresses, sources = tuple(addresses), tuple(sources)
    with in_netns(node_netns), _netlink() as link:
        near = _put_veth(link, pod_link(uid), pod_netns)
        for address in addresses:
            _put_near_routes(link, near, address, sources)
    with in_netns(pod_netns), _netlink() as link:
        _put_far_end(link, addresses)
        _put_capture_routing(link)


def remove_pod(node_netns: Path, pod_netns: Path, uid: str) -> None:
    """Remove a pod's link and routes and let go of its namespace. Nothing if they are gone."""
    if is_netns(node_netns):
        with in_netns(node_netns), _netlink() as link:
            _delete_link(link, pod_link(uid))
    delete_netns(pod_netns)


def pod_link(uid: str) -> str:
    """The name of the node's end of a pod's link."""
    return POD_LINK_PREFIX + hashlib.sha256(uid.encode()).hexdigest()[:11]


def _prepare(netns: Path, sysctls: Iterable[tuple[str, str]]) -> None:
    """Make a namespace whose switches are set before it has a device: some are read when a device appears."""
    create_netns(netns)
    with in_netns(netns):
        _write_sysctls((*_COMMON_SYSCTLS, *sysctls))


def _put_veth(link: Any, name: str, far_netns: Path) -> int:
    """The index of the near end, which is up; the far end is `eth0` in `far_netns`."""
    found = link.link_lookup(ifname=name)
    if found:
        return int(found[0])
    far = os.open(far_netns, os.O_RDONLY | os.O_CLOEXEC)
    try:
        peer = {"ifname": _FAR_NAME, "net_ns_fd": far, "address": _FAR, "index": _FAR_INDEX}
        link.link("add", ifname=name, kind="veth", address=_NEAR, peer=peer)
    finally:
        os.close(far)
    near = int(link.link_lookup(ifname=name)[0])
    link.link("set", index=near, state="up")
    return near


def _put_near_routes(link: Any, near: int, address: str, sources: Iterable[str]) -> None:
    family = _family(address)
    link.neigh("replace", dst=address, lladdr=_FAR, ifindex=near, state=_PERMANENT, family=family)
    source = next((each for each in sources if _family(each) == family), None)
    prefsrc = {"prefsrc": source} if source is not None else {}
    _put_route(link, dst=f"{address}/{_WIDTH[family]}", oif=near, scope="link", **prefsrc)


def _put_far_end(link: Any, addresses: Iterable[str]) -> None:
    link.link("set", index=_LOOPBACK, state="up")
    link.link("set", index=_FAR_INDEX, state="up")
    for address in addresses:
        family = _family(address)
        gateway = _GATEWAYS[family]
        _put_address(link, _FAR_INDEX, address)
        link.neigh("replace", dst=gateway, lladdr=_NEAR, ifindex=_FAR_INDEX, state=_PERMANENT, family=family)
        _put_route(link, dst=_ANYWHERE[family], oif=_FAR_INDEX, gateway=gateway, flags="onlink")


def _put_capture_routing(link: Any) -> None:
    for family in _WIDTH:
        rule = {"family": family, "priority": CAPTURE_TABLE, "table": CAPTURE_TABLE}
        with _tolerating(errno.EEXIST):
            link.rule("add", fwmark=CAPTURE_MARK, fwmask=CAPTURE_MARK, **rule)
        _put_route(link, dst=_ANYWHERE[family], oif=_LOOPBACK, table=CAPTURE_TABLE, type="local", scope="host")


def _put_address(link: Any, index: int, address: str) -> None:
    """IPv6: the kernel makes the address local a moment later, in a work queue; until then a dial of it would leave."""
    family = _family(address)
    with _tolerating(errno.EEXIST):
        link.addr("add", index=index, address=address, prefixlen=_WIDTH[family], flags=_NO_DAD)
    if family == socket.AF_INET6:
        _put_route(link, dst=f"{address}/{_WIDTH[family]}", oif=index, table=_LOCAL_TABLE, type="local")


def _put_route(link: Any, **route: Any) -> None:
    link.route("replace", family=_family(str(route["dst"]).partition("/")[0]), **route)


def _delete_link(link: Any, name: str) -> None:
    for index in link.link_lookup(ifname=name):
        with _tolerating(errno.ENODEV):
            link.link("del", index=index)


def _family(address: str) -> int:
    return socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6


def _write_sysctls(values: Iterable[tuple[str, str]]) -> None:
    """Write to /proc/sys, which is the calling thread's namespace's. A switch that this kernel lacks is left out."""
    for name, value in values:
        with contextlib.suppress(FileNotFoundError):
            try:
                Path("/proc/sys", name).write_text(value)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    continue
                raise KernelError(f"write {value} to sysctl {name}", error.errno or 0) from error


@contextlib.contextmanager
def _netlink() -> Iterator[Any]:
    """A route socket of the calling thread's namespace; the library's errors leave as ours."""
    try:
        with IPRoute() as link:
            yield link
    except NetlinkError as error:
        raise KernelError(f"netlink: {error}", error.code) from error


@contextlib.contextmanager
def _tolerating(code: int) -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code != code:
            raise
