"""Cluster addresses of Services: given when a Service is written, the same ones after a restart.

An admission of the store, so no Service is ever seen without its addresses. As in Kubernetes: an address can be asked
for (`spec.clusterIP`), `None` makes a headless Service, and neither changes afterwards; what is not asked for is picked
above the band that is left for those who ask.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aether.adapters.objects.kinds import KubeObject, key_of
from aether.adapters.objects.state import StateFile, StateUnreadable
from aether.errors import Diagnostic, Rejected
from aether.model.kube import GENERATED_LABEL
from aether.model.names import ServiceId

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HEADLESS = "None"


def asked_band(size: int) -> int:
    """How many addresses at the start of a range are picked last (Kubernetes: KEP-3070)."""
    return min(max(16, size // 16), 256)


class ServiceAddresses:
    """`cidrs` are the service ranges, one per family, the primary first; `reserved` are never given."""

    def __init__(self, cidrs: Iterable[str], *, reserved: Iterable[str], state: StateFile | None = None) -> None:
        self._networks: tuple[Network, ...] = tuple(ipaddress.ip_network(cidr) for cidr in cidrs)
        firsts = {str(network[0]) for network in self._networks} | {str(network[1]) for network in self._networks}
        self._reserved = firsts | {str(ipaddress.ip_address(text)) for text in reserved}
        self._state = state
        self._given: dict[ServiceId, tuple[str, ...]] = {}
        self._owner_by_address: dict[str, ServiceId] = {}
        self._retired: dict[ServiceId, None] = {}
        self._saved: bytes | None = None

    def load(self) -> None:
        """Remember what was given before the restart.

        Raises:
            StateUnreadable: the file is there and cannot be read.
        """
        data = self._state.load() if self._state is not None else None
        if self._state is None or data is None:
            return
        try:
            saved = msgspec.json.decode(data, type=dict[str, tuple[str, ...]])
        except msgspec.MsgspecError as error:
            raise StateUnreadable(self._state.path, str(error)) from error
        for text, addresses in saved.items():
            namespace, _, name = text.partition("/")
            if all(self._is_usable(address) for address in addresses):
                self._give(ServiceId(namespace, name), addresses)
        self._retired = dict.fromkeys(self._given)
        self._saved = data

    async def save(self) -> None:
        """Write what is given, if it changed.

        Raises:
            StorageFailed: the disk refused; it is written next time.
        """
        data = msgspec.json.encode({str(service): addresses for service, addresses in sorted(self._given.items())})
        if self._state is not None and data != self._saved:
            await self._state.save(data)
            self._saved = data

    def retire(self, live: Iterable[ServiceId]) -> None:
        """Tell which Services exist. The others keep their addresses until somebody needs them."""
        alive = frozenset(live)
        self._retired = {service: None for service in self._given if service not in alive}

    def is_retired(self, namespace: str, name: str) -> bool:
        return ServiceId(namespace, name) in self._retired

    def __call__(self, new: KubeObject, old: KubeObject | None) -> KubeObject:
        """The Service with its addresses (any other object as it is).

        Raises:
            Rejected: an address that was asked for cannot be had, or one that was given would change.
        """
        if new["kind"] != "Service":
            return new
        key = key_of(new)
        service = ServiceId(key.namespace, key.name)
        asked = _asked(new)
        before = _asked(old) if old is not None and not _changes_hands(old, new) else ()
        if before and not set(asked) <= set(before):
            message = f"the address of a Service cannot change (it is {before[0]}): delete the Service first"
            raise _rejection("immutable", message, service, asked)
        if HEADLESS in asked:
            return _with_addresses(new, [HEADLESS])
        return _with_addresses(new, before or self._allocate(service, asked))

    def _allocate(self, service: ServiceId, asked: Sequence[str]) -> tuple[str, ...]:
        wanted = {_version(address): address for address in asked}
        for address in asked:
            self._check_asked(service, address, asked)
        kept = {_version(address): address for address in self._given.get(service, ())}
        addresses = tuple(
            wanted.get(network.version) or kept.get(network.version) or self._pick(service, network)
            for network in self._networks
        )
        self._give(service, addresses)
        return addresses

    def _check_asked(self, service: ServiceId, address: str, asked: Sequence[str]) -> None:
        owner = self._owner_by_address.get(address)
        if not any(ipaddress.ip_address(address) in network for network in self._networks):
            ranges = " and ".join(str(network) for network in self._networks)
            raise _rejection("bad-address", f"{address} is not in the service ranges {ranges}", service, asked)
        if address in self._reserved:
            raise _rejection("bad-address", f"{address} is reserved", service, asked)
        if owner is not None and owner != service and owner not in self._retired:
            raise _rejection("address-taken", f"{address} belongs to Service {owner}", service, asked)

    def _pick(self, service: ServiceId, network: Network) -> str:
        """A free address: where the name's hash says, or the next; below the band when there is none above it."""
        size = min(network.num_addresses, 1 << 16)
        band = min(asked_band(size), size)
        start = int.from_bytes(hashlib.sha256(str(service).encode()).digest()[:8]) % max(1, size - band)
        upper = (band + (start + step) % (size - band) for step in range(size - band))
        for offsets in (upper, range(band)):
            for offset in offsets:
                address = str(network[offset])
                if address not in self._owner_by_address and self._is_usable(address):
                    return address
        return self._reclaim(service, network)

    def _reclaim(self, service: ServiceId, network: Network) -> str:
        for retired in self._retired:
            for address in self._given.get(retired, ()):
                if _version(address) == network.version:
                    self._release(retired)
                    return address
        raise _rejection("no-address", f"no address is left in {network}", service, ())

    def _is_usable(self, address: str) -> bool:
        parsed = ipaddress.ip_address(address)
        is_broadcast = any(parsed == network.broadcast_address for network in self._networks)
        return address not in self._reserved and not is_broadcast and any(parsed in net for net in self._networks)

    def _give(self, service: ServiceId, addresses: tuple[str, ...]) -> None:
        for address in addresses:
            owner = self._owner_by_address.get(address)
            if owner is not None and owner != service:
                self._release(owner)
        self._release(service)
        self._given[service] = addresses
        self._owner_by_address |= dict.fromkeys(addresses, service)
        self._retired.pop(service, None)

    def _release(self, service: ServiceId) -> None:
        for address in self._given.pop(service, ()):
            del self._owner_by_address[address]
        self._retired.pop(service, None)


def _asked(service: Mapping[str, object]) -> tuple[str, ...]:
    """The addresses in a Service's spec, in one spelling."""
    spec = service.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    first, others = spec.get("clusterIP"), spec.get("clusterIPs")
    texts = [first, *(others if isinstance(others, list) else ())]
    return tuple(dict.fromkeys(_spell(text) for text in texts if text))


def _spell(text: object) -> str:
    try:
        return HEADLESS if text == HEADLESS else str(ipaddress.ip_address(str(text)))
    except ValueError:
        message = f"{str(text)[:80]!r} is no IP address"
        raise Rejected([Diagnostic(code="bad-address", message=message, field="spec.clusterIP")]) from None


def _changes_hands(old: KubeObject, new: KubeObject) -> bool:
    """Whether a user takes the name of a Service that the mesh generated."""
    return _is_generated(old) and not _is_generated(new)


def _is_generated(service: KubeObject) -> bool:
    return (service["metadata"].get("labels") or {}).get(GENERATED_LABEL) == "true"


def _version(address: str) -> int:
    return ipaddress.ip_address(address).version


def _with_addresses(service: KubeObject, addresses: Sequence[str]) -> KubeObject:
    spec = {**service["spec"], "clusterIP": addresses[0], "clusterIPs": list(addresses)}
    return {**service, "spec": spec}


def _rejection(code: str, message: str, service: ServiceId, asked: Sequence[str]) -> Rejected:
    item = ",".join(asked)
    subject = f"Service {service}"
    return Rejected([Diagnostic(code=code, message=message, subject=subject, field="spec.clusterIP", item=item)])
