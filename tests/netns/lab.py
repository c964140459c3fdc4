"""A throw-away fabric with nodes and pods on the real kernel, in namespaces that end with the test.

All of it lives in one thread that has its own network and mount namespace, so the host's are never touched, and a
killed test leaves nothing. Sockets and nftables contexts are made in that thread and used in any.
"""

import contextlib
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from aether.adapters.kernel import links, syscall
from aether.adapters.kernel.netns import netns_command, socket_in
from aether.adapters.kernel.nft import Nft

P = ParamSpec("P")
R = TypeVar("R")

DIAL_TIMEOUT_S = 2.0
_IP_TRANSPARENT = 19  # ip(7)
_IPV6_TRANSPARENT = 75  # linux/in6.h


class LabNode(msgspec.Struct, frozen=True):
    index: int
    netns: Path
    v4: str
    v6: str


class LabPod(msgspec.Struct, frozen=True):
    uid: str
    node: LabNode
    netns: Path
    v4: str
    v6: str

    @property
    def addresses(self) -> tuple[str, str]:
        return (self.v4, self.v6)


class Lab:
    """Use as a context manager: `with Lab(folder) as lab`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab")
        self._stack = contextlib.ExitStack()
        self._pods = 0

    def __enter__(self) -> "Lab":
        self.run(self._isolate)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        self._thread.shutdown(wait=True)

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `function` in the lab's thread, that is in the fabric."""
        return self._thread.submit(function, *args, **kwargs).result()

    def add_node(self, index: int) -> LabNode:
        netns = self._folder / f"node-{index}"
        self.run(links.add_node, index, netns)
        return LabNode(index, netns, *links.node_addresses(index))

    def add_pod(self, node: LabNode) -> LabPod:
        self._pods += 1
        number = self._pods + 1
        uid = f"uid-{number}"
        v4, v6 = f"10.244.{node.index}.{number}", f"fd00:244:{node.index:x}::{number:x}"
        netns = self._folder / f"pod-{uid}"
        self.run(links.add_pod, node.netns, netns, uid, (v4, v6), sources=(node.v4, node.v6))
        return LabPod(uid, node, netns, v4, v6)

    def nft(self, netns: Path) -> Nft:
        return self._stack.enter_context(self.run(Nft, netns))

    def open_socket(self, netns: Path, family: int, kind: int) -> socket.socket:
        sock = self._stack.enter_context(self.run(socket_in, netns, family, kind))
        sock.settimeout(DIAL_TIMEOUT_S)
        return sock

    def listen(self, netns: Path, port: int, *, is_transparent: bool = False, backlog: int = 128) -> socket.socket:
        """A TCP listener for both families at every address."""
        sock = self.open_socket(netns, socket.AF_INET6, socket.SOCK_STREAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_transparent:
            sock.setsockopt(socket.SOL_IP, _IP_TRANSPARENT, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_TRANSPARENT, 1)
        sock.bind(("::", port))
        sock.listen(backlog)
        return sock

    def bind_udp(self, netns: Path, address: str, port: int) -> socket.socket:
        sock = self.open_socket(netns, family_of(address), socket.SOCK_DGRAM)
        sock.bind((address, port))
        return sock

    def dial(self, netns: Path, address: str, port: int, *, mark: int = 0) -> socket.socket:
        """A connected TCP socket.

        Raises:
            OSError: as connect(2) has it; TimeoutError after `DIAL_TIMEOUT_S`.
        """
        sock = self.open_socket(netns, family_of(address), socket.SOCK_STREAM)
        if mark:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        sock.connect((address, port))
        return sock

    def output(self, netns: Path, *argv: str) -> str:
        """What a program prints in a namespace."""
        command = netns_command(netns, argv)
        return self.run(lambda: subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout)

    def _isolate(self) -> None:
        syscall.unshare(syscall.CLONE_NEWNET | syscall.CLONE_NEWNS)
        syscall.mount("none", "/", flags=syscall.MS_REC | syscall.MS_PRIVATE)
        syscall.mount("tmpfs", str(self._folder), kind="tmpfs")
        links.build_fabric()


def family_of(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def original_destination(connection: socket.socket) -> tuple[str, int]:
    """Whom the client of a transparently accepted connection dialled."""
    address, port = connection.getsockname()[:2]
    return (address.removeprefix("::ffff:"), port)


def accept_any(*listeners: socket.socket) -> tuple[int, socket.socket]:
    """The one connection that a finished dial left at one of `listeners`: which of them, and the connection.

    The kernel may queue it a moment after connect(2) returned; two connections are an error.
    """
    ready, _, _ = select.select(listeners, (), (), DIAL_TIMEOUT_S)
    assert len(ready) == 1, f"{len(ready)} of the listeners have a connection"
    return listeners.index(ready[0]), ready[0].accept()[0]


@contextlib.contextmanager
def timed() -> Iterator[Callable[[], float]]:
    """Seconds since the block began."""
    began_s = time.monotonic()
    yield lambda: time.monotonic() - began_s


def processes_named(text: str) -> list[int]:
    """The processes whose command line holds `text`, this one excepted."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if text.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found
