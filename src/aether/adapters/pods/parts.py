"""What the pod runner is given: the network, addresses and the mesh's word that a pod is captured."""

import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import msgspec

from aether.adapters.clock import Clock
from aether.adapters.objects.store import ObjectStore

LOG_LIMIT_BYTES = 10 * 1024 * 1024
"""A container's log beyond this is renamed, and the one renamed before is lost (kubelet's own default size)."""

FIRST_BACK_OFF_S = 10.0
"""What a container waits before its second restart; the first is at once (kubelet)."""
BACK_OFF_LIMIT_S = 300.0
"""Where the doubling of that wait ends (kubelet)."""


class PodNetwork(Protocol):
    """Sandboxes: network namespaces wired to their node."""

    async def create(self, node: str, uid: str, addresses: tuple[str, ...]) -> str:
        """Make the pod's namespace, ready for use; its path, which no other pod ever has."""

    async def remove(self, uid: str) -> None:
        """Remove it; nothing happens if there is none."""


class AddressPool(Protocol):
    """The pods' addresses, by node."""

    def take(self, node: str, uid: str) -> tuple[str, ...]:
        """Addresses for a pod, the primary first; the same ones when asked again.

        Raises:
            AetherError: the node has none left.
        """

    def give_back(self, uid: str) -> None: ...


SocketIn = Callable[[Path, int, int], socket.socket]
"""(path of a network namespace, family, type) → a socket of that namespace."""


class RunnerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where pods live and what they are told.

    `directory` is R/pods. `nameservers` and `cluster_domain` make the pods' resolv.conf. `hidden` are mounts that no
    container may hold on to (R/netns), `covered` directories that none may see into (R and S: they hold keys, and the
    control plane's sockets). Without `is_isolated`, containers share this process's namespaces: to look at
    the runner itself, without root.
    """

    directory: Path
    nameservers: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    hidden: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    is_isolated: bool = True
    log_limit_bytes: int = LOG_LIMIT_BYTES
    first_back_off_s: float = FIRST_BACK_OFF_S
    back_off_limit_s: float = BACK_OFF_LIMIT_S


class RunnerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a `PodRunner` works with.

    `wait_captured(uid)` returns once the pod's capture is in place, or at once for a pod that needs none: no process of
    the pod starts before. `netns_of(node)` is the node's own namespace, where probes come from; `socket_in` opens them.
    """

    store: ObjectStore
    clock: Clock
    network: PodNetwork
    addresses: AddressPool
    wait_captured: Callable[[str], Coroutine[Any, Any, None]]
    netns_of: Callable[[str], Path]
    socket_in: SocketIn
    settings: RunnerSettings
