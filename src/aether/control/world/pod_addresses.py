"""Pod addresses: each node gives its own, one per family, with the same number in each."""

import ipaddress

from aether.adapters.objects.kinds import ObjectKey
from aether.adapters.objects.store import ObjectStore
from aether.errors import AetherError
from aether.model.kube_parse import parse_node

FIRST_NUMBER = 2
"""The first two addresses of a node's range are nobody's."""
LAST_NUMBER = 254
"""The last one of a /24; a node has at most 253 pods."""


class NoPodAddress(AetherError):
    code = "no-pod-address"

    def __init__(self, node: str, why: str) -> None:
        super().__init__(f"node {node}: {why}")


class PodAddresses:
    """An `AddressPool`. Addresses go round: one given back is the last to be given again."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._number_by_uid: dict[str, tuple[str, int]] = {}
        self._last_by_node: dict[str, int] = {}

    def take(self, node: str, uid: str) -> tuple[str, ...]:
        live = self._store.get(ObjectKey("Node", "", node))
        ranges = parse_node(live).pod_cidrs if live is not None else ()
        if not ranges:
            raise NoPodAddress(node, "it does not exist, or has no range of pod addresses")
        if uid not in self._number_by_uid:
            self._number_by_uid[uid] = (node, self._next_number(node))
        number = self._number_by_uid[uid][1]
        return tuple(str(ipaddress.ip_network(cidr)[number]) for cidr in ranges)

    def give_back(self, uid: str) -> None:
        self._number_by_uid.pop(uid, None)

    def _next_number(self, node: str) -> int:
        used = {number for owner, number in self._number_by_uid.values() if owner == node}
        size = LAST_NUMBER - FIRST_NUMBER + 1
        last = self._last_by_node.get(node, FIRST_NUMBER - 1)
        for step in range(1, size + 1):
            number = FIRST_NUMBER + (last - FIRST_NUMBER + step) % size
            if number not in used:
                self._last_by_node[node] = number
                return number
        raise NoPodAddress(node, f"all of its {size} pod addresses are in use")
