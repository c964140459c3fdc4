"""What mesh DNS costs: answers, a server on loopback, reloads under load, memory. Touches nothing but loopback.

Absolute times hold only side by side in one run: client and server share the machine.
"""

import resource
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.dns import query
from tests.support.ports import free_port

from aether.adapters.dns import write_zone
from aether.adapters.dns.zone_file import read_zone
from aether.model.ports import Transport
from aether.plan.mesh.dns import Zone, ZoneName
from aether.wire.dns import Directory, answer
from bench.figures import once

ADDRESS = "127.0.0.1"
NAMES = ("s7.n7.aether.internal", "s7.n7.svc.cluster.local", "s7.n7.aether.internal.n7.svc.cluster.local")


def main(smoke: bool) -> None:  # noqa: FBT001
    """Print one figure a line. With `smoke`, sizes are tiny: it only shows that everything runs."""
    services, queries = (30, 300) if smoke else (3_000, 60_000)
    with tempfile.TemporaryDirectory() as folder:
        path, reload_socket = Path(folder, "dns.json"), Path(folder, "dns.sock")
        with once(f"zone of {services} services: written"):
            write_zone(path, reload_socket, _zone(services))
        with once(f"zone of {services} services: read and made for finding"):
            directory = read_zone(path)
        _bench_answers(directory, queries)
        with _serving(path, reload_socket) as (port, pid):
            _bench_datagrams("udp, 1 outstanding", port, queries // 6, outstanding=1)
            _bench_datagrams("udp, 32 outstanding", port, queries, outstanding=32)
            _bench_reloads(path, reload_socket, port, services=services, queries=queries // 6)
            _bench_tcp(port, queries // 6)
            _print_memory(pid)


def _zone(services: int) -> Zone:
    names = []
    for number in range(services):
        ipv4, ipv6 = (f"10.96.{number >> 8}.{number & 255}",), (f"fd96::{number + 16:x}",)
        pair = f"s{number}.n{number % 40}"
        spelled = (f"{pair}.aether.internal", f"{pair}.svc.cluster.local", f"{pair}.svc", pair)
        names += [ZoneName(name=name, ipv4=ipv4, ipv6=ipv6) for name in spelled]
    return Zone(domains=("aether.internal", "cluster.local"), names=tuple(sorted(names)))


def _messages() -> list[bytes]:
    return [bytes(query(name, record_type).pack()) for name in NAMES for record_type in ("A", "AAAA")]


def _bench_answers(directory: Directory, rounds: int) -> None:
    messages = _messages()
    began_s = time.perf_counter()
    for number in range(rounds):
        answer(messages[number % len(messages)], directory, transport=Transport.UDP)
    sys.stdout.write(f"answer: {(time.perf_counter() - began_s) / rounds * 1e6:.1f} us each ({rounds}x)\n")


@contextmanager
def _serving(path: Path, reload_socket: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    options = ("--zone", str(path), "--reload", str(reload_socket), "--port", str(port))
    command = (sys.executable, "-m", "aether.app.dns", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "zone-loaded" in line)
        yield port, process.pid
        process.terminate()
        process.communicate()


def _bench_datagrams(what: str, port: int, queries: int, *, outstanding: int) -> None:
    """`outstanding` sockets with one query each, each sent again when it is answered."""
    messages = _messages()
    clients = {}
    for number in range(outstanding):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.connect((ADDRESS, port))
        clients[client.fileno()] = (client, messages[number % len(messages)])
    poll = select.epoll()
    sent_s = {}
    began_s = time.perf_counter()
    for descriptor, (client, message) in clients.items():
        poll.register(descriptor, select.EPOLLIN)
        sent_s[descriptor] = time.perf_counter()
        client.send(message)
    times_ms: list[float] = []
    while len(times_ms) < queries:
        ready = poll.poll(2.0)
        assert ready, "an answer is missing"
        for descriptor, _ in ready:
            client, message = clients[descriptor]
            client.recv(2048)
            now_s = time.perf_counter()
            times_ms.append((now_s - sent_s[descriptor]) * 1e3)
            sent_s[descriptor] = now_s
            client.send(message)
    _print_rate(what, times_ms, time.perf_counter() - began_s)
    for client, _ in clients.values():
        client.close()


def _bench_reloads(path: Path, reload_socket: Path, port: int, *, services: int, queries: int) -> None:
    """The zone changes again and again while queries come one after another."""
    messages = _messages()
    zones = (_zone(services - 1), _zone(services))
    times_ms = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((ADDRESS, port))
        began_s = time.perf_counter()
        for number in range(queries):
            if number % 1_000 == 0:
                write_zone(path, reload_socket, zones[number // 1_000 % 2])
            sent_s = time.perf_counter()
            client.send(messages[number % len(messages)])
            client.recv(2048)
            times_ms.append((time.perf_counter() - sent_s) * 1e3)
    _print_rate("udp, 1 outstanding, a reload every 1,000", times_ms, time.perf_counter() - began_s)


def _bench_tcp(port: int, queries: int) -> None:
    messages = _messages()
    times_ms = []
    with socket.create_connection((ADDRESS, port)) as client, client.makefile("rb") as stream:
        began_s = time.perf_counter()
        for number in range(queries):
            message = messages[number % len(messages)]
            sent_s = time.perf_counter()
            client.sendall(len(message).to_bytes(2, "big") + message)
            stream.read(int.from_bytes(stream.read(2), "big"))
            times_ms.append((time.perf_counter() - sent_s) * 1e3)
    _print_rate("tcp, 1 outstanding", times_ms, time.perf_counter() - began_s)


def _print_rate(what: str, times_ms: list[float], took_s: float) -> None:
    times_ms.sort()
    p99_ms = times_ms[len(times_ms) * 99 // 100]
    sys.stdout.write(
        f"{what}: {len(times_ms) / took_s:,.0f} queries/s, median {statistics.median(times_ms):.3f} ms, "
        f"p99 {p99_ms:.3f} ms, worst {times_ms[-1]:.1f} ms ({len(times_ms)}x)\n"
    )


def _print_memory(pid: int) -> None:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    sys.stdout.write(f"server: {pages * resource.getpagesize() / 1e6:.0f} MB resident\n")


if __name__ == "__main__":
    main(smoke="--smoke" in sys.argv)
