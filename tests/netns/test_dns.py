"""The node's DNS as pods meet it: at the DNS address, through address translation, with real clients."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dnslib
import pytest
from tests.netns.lab import Lab, LabNode, LabPod
from tests.support.dns import query

from aether.adapters.dns import write_zone
from aether.adapters.kernel.links import FABRIC_ADDRESSES
from aether.adapters.kernel.netns import netns_command
from aether.model.facts import MeshConfig, NodeFacts
from aether.model.ports import DNS_PORT
from aether.plan.mesh.dns import Zone, ZoneName
from aether.plan.routing import plan_routing
from aether.render.nft import render_routing

pytestmark = pytest.mark.root

CONFIG = MeshConfig()
DNS4, DNS6 = CONFIG.dns_addresses
PODS = tuple(f"10.244.1.{number}" for number in range(1, 201))
CART = ZoneName(name="cart.shop.svc.cluster.local", ipv4=("10.96.0.5",), ipv6=("fd96::5",))
MESH_CART = ZoneName(name="cart.shop.aether.internal", ipv4=("10.96.0.5",), ipv6=("fd96::5",))
DB = ZoneName(name="db.shop.aether.internal", ipv4=PODS)
READY_S = 10.0

_RESOLVE = """
import socket, sys
for family in (socket.AF_UNSPEC, socket.AF_INET):
    try:
        found = socket.getaddrinfo(sys.argv[1], None, family, socket.SOCK_STREAM)
        print(len(found), *sorted({each[4][0] for each in found}))
    except socket.gaierror as error:
        print("error", error.errno)
"""


def planned(*names: ZoneName) -> Zone:
    above = [ZoneName(name=name) for name in ("svc.cluster.local", "shop.svc.cluster.local", "shop.aether.internal")]
    return Zone(domains=("aether.internal", "cluster.local"), names=tuple(sorted((*above, *names))))


class Dns:
    """A node's DNS process, and a pod that asks it."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab = lab
        self._folder = folder
        self.node: LabNode = lab.add_node(1)
        self.pod: LabPod = lab.add_pod(self.node)
        facts = NodeFacts(node="n1", node_addresses=(self.node.v4, self.node.v6), config=CONFIG)
        lab.nft(self.node.netns).apply(render_routing(plan_routing(facts)))
        self._process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> None:
        paths = ("--zone", str(self._folder / "dns.json"), "--reload", str(self._folder / "dns.sock"))
        command = netns_command(self.node.netns, (sys.executable, "-m", "aether.app.dns", *paths, *options))
        self._process = self._lab.run(
            lambda: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        self.wait_logged("zone-")

    def wait_logged(self, text: str) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:  # the test's own time limit is the deadline
            if text in line:
                return line
        raise AssertionError(f"the process ended without saying {text}")

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        status = self._process.wait(READY_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return status

    def close(self) -> None:
        if self._process is not None:
            self.stop()

    def write(self, *names: ZoneName) -> None:
        write_zone(self._folder / "dns.json", self._folder / "dns.sock", planned(*names))

    def dig(self, *arguments: str) -> list[str]:
        """The lines of a short answer, asked by the pod."""
        command = ("dig", "+short", "+time=2", "+tries=1", "+nocookie", *arguments)
        return self._lab.output(self.pod.netns, *command).splitlines()

    def status(self, *arguments: str) -> str:
        """The header and flags of an answer, asked by the pod."""
        command = ("dig", "+noall", "+comments", "+time=2", "+tries=1", *arguments)
        return self._lab.output(self.pod.netns, *command)

    def resolve(self, name: str, *, use_tcp: bool = False) -> list[str]:
        """What getaddrinfo says in the pod, for both families and for IPv4."""
        config = self._folder / "resolv.conf"
        search = "shop.svc.cluster.local svc.cluster.local cluster.local"
        options = f"ndots:5{' use-vc' if use_tcp else ''}"
        config.write_text(f"nameserver {DNS4}\nsearch {search}\noptions {options}\n")
        script = f'mount --bind {config} "$(readlink -f /etc/resolv.conf)" && exec "$@"'
        command = ("unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", _RESOLVE, name)
        return self._lab.output(self.pod.netns, *command).splitlines()


@pytest.fixture
def dns(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dns]:
    dns = Dns(lab, tmp_path_factory.mktemp("dns"))
    yield dns
    dns.close()


def test_a_pod_is_answered_at_the_dns_address_by_udp_and_tcp_of_both_families(dns: Dns) -> None:
    dns.write(CART, MESH_CART, DB)
    dns.start()
    for server in (DNS4, DNS6):
        for way in ("+notcp", "+tcp"):
            assert dns.dig(f"@{server}", way, "Cart.shop.AETHER.internal.", "A") == ["10.96.0.5"]
            assert dns.dig(f"@{server}", way, "cart.shop.svc.cluster.local", "AAAA") == ["fd96::5"]
            assert "NXDOMAIN" in dns.status(f"@{server}", way, "nobody.shop.aether.internal")
            assert "SERVFAIL" in dns.status(f"@{server}", way, "example.com")
            assert dns.dig(f"@{server}", way, "-x", "10.96.0.5") == ["cart.shop.svc.cluster.local."]
    assert dns.dig(f"@{dns.node.v4}", "-p", str(DNS_PORT), "cart.shop.aether.internal") == ["10.96.0.5"]
    assert dns.stop() == 0


def test_a_long_answer_is_cut_over_udp_and_fetched_over_tcp(dns: Dns) -> None:
    dns.write(DB)
    dns.start()
    assert " tc" in dns.status(f"@{DNS4}", "+ignore", "+noedns", "db.shop.aether.internal")
    assert sorted(dns.dig(f"@{DNS4}", "db.shop.aether.internal")) == sorted(PODS)


@pytest.mark.parametrize("use_tcp", [False, True], ids=["udp", "tcp"])
def test_the_c_library_resolves_names_of_every_family(dns: Dns, use_tcp: bool) -> None:
    dns.write(CART, MESH_CART, DB)
    dns.start()
    for name in ("cart", "cart.shop", "cart.shop.svc", "cart.shop.svc.cluster.local", "cart.shop.aether.internal."):
        assert dns.resolve(name, use_tcp=use_tcp) == ["2 10.96.0.5 fd96::5", "1 10.96.0.5"], name
    assert dns.resolve("cart.shop.aether.internal", use_tcp=use_tcp) == ["2 10.96.0.5 fd96::5", "1 10.96.0.5"]
    assert dns.resolve("db.shop.aether.internal", use_tcp=use_tcp)[0].startswith("200 ")
    assert dns.resolve("nobody.shop.aether.internal.", use_tcp=use_tcp) == [f"error {socket.EAI_NONAME}"] * 2


def test_a_changed_zone_is_served_at_once(dns: Dns) -> None:
    dns.write(CART)
    dns.start()
    dns.write(MESH_CART)
    dns.wait_logged("zone-loaded")
    assert dns.dig(f"@{DNS4}", "cart.shop.aether.internal") == ["10.96.0.5"]
    assert dns.dig(f"@{DNS4}", "cart.shop.svc.cluster.local") == []


def test_the_last_zone_is_served_after_a_restart_without_anybody_there(dns: Dns) -> None:
    dns.write(CART)
    dns.start()
    dns.stop()
    dns.start()
    assert dns.dig(f"@{DNS4}", "cart.shop.svc.cluster.local") == ["10.96.0.5"]


def test_before_the_first_zone_names_fail_and_are_not_denied(dns: Dns) -> None:
    dns.start()
    assert "SERVFAIL" in dns.status(f"@{DNS4}", "cart.shop.svc.cluster.local")


def test_other_names_are_asked_of_other_servers_over_the_same_transport(dns: Dns, lab: Lab) -> None:
    """The other server is in the fabric."""
    address = FABRIC_ADDRESSES[0]
    asked = query("example.com")
    datagrams, listener = lab.run(_open_server, address)
    dns.write(CART)
    dns.start("--upstream", "192.0.2.1", "--upstream", f"{address}:5353")
    with ThreadPoolExecutor(max_workers=2) as servers, datagrams, listener:
        for way, serve in (("+notcp", _serve_datagram), ("+tcp", _serve_connection)):
            served = servers.submit(serve, datagrams if way == "+notcp" else listener)
            assert dns.dig(f"@{DNS4}", way, "example.com") == ["192.0.2.7"]
            assert served.result(READY_S) == asked.q.qname


def _open_server(address: str) -> tuple[socket.socket, socket.socket]:
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    for each in (datagrams, listener):
        each.settimeout(READY_S)
        each.bind((address, 5353))
    listener.listen()
    return datagrams, listener


def _answered(data: bytes) -> tuple[dnslib.DNSLabel, bytes]:
    record = dnslib.DNSRecord.parse(data)
    reply = record.reply()
    reply.add_answer(*dnslib.RR.fromZone(f"{record.q.qname} 60 A 192.0.2.7"))
    return record.q.qname, bytes(reply.pack())


def _serve_datagram(datagrams: socket.socket) -> dnslib.DNSLabel:
    data, peer = datagrams.recvfrom(4096)
    name, reply = _answered(data)
    datagrams.sendto(reply, peer)
    return name


def _serve_connection(listener: socket.socket) -> dnslib.DNSLabel:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        name, reply = _answered(stream.read(int.from_bytes(stream.read(2), "big")))
        stream.write(len(reply).to_bytes(2, "big") + reply)
    return name


def test_a_port_that_is_taken_ends_the_process_with_a_reason(dns: Dns, lab: Lab) -> None:
    dns.write(CART)
    dns.start()
    command = (sys.executable, "-m", "aether.app.dns", "--zone", os.devnull, "--reload", "/nonexistent/dns.sock")
    ended = lab.run(
        lambda: subprocess.run(
            netns_command(dns.node.netns, command), capture_output=True, text=True, timeout=READY_S, check=False
        )
    )
    assert ended.returncode == 1
    assert "dns-port-unavailable" in ended.stdout
