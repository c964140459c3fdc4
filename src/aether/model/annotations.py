"""Pod annotations to a declaration: the only reader of annotation text (spec section 2, rulings A.1 and A.3).

Owns: every annotation, its grammar and its limits. Leaves to others: what a declaration means.

Rule: all that is wrong is found at once, and named by pod, annotation and item. Nothing is guessed.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from aether.errors import Diagnostic, Rejected
from aether.model.names import ServiceId, is_label, is_service_label
from aether.model.ports import RESERVED_PORTS, Codec, DeclaredPort, PortClass, Transport, parse_port_number
from aether.model.settings import PORTS_PER_POD_LIMIT, SOCKET_PATH_LIMIT_BYTES, WEIGHT_LIMIT

PORTS = "endpoint.aether.io/ports"
PORT = "endpoint.aether.io/port"
PROTOCOL = "endpoint.aether.io/protocol"
WEIGHT = "endpoint.aether.io/weight"
UDS_SOCKET = "endpoint.aether.io/uds-socket"
UPSTREAMS = "config.aether.io/upstreams"
REDIRECT_ALL = "capture.aether.io/redirect-all"
EXCLUDED_PORTS = "capture.aether.io/exclude-outbound-ports"
EXCLUDED_RANGES = "capture.aether.io/exclude-outbound-ip-ranges"
MANAGED = "aether.io/managed"

DEFAULT_PORT = 8080

T = TypeVar("T")


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod declares.

    `codecs` pairs each http port with the codec of its last hop. `liveness` is the TCP port to probe, None without one.
    `upstreams` are declared dependencies. `uds_socket` is a path in the pod that takes the last hop of http ports,
    or "".
    """

    ports: tuple[DeclaredPort, ...]
    codecs: tuple[tuple[int, Codec], ...] = ()
    liveness: DeclaredPort | None = None
    upstreams: tuple[ServiceId, ...] = ()
    is_captured: bool = True
    excluded_ports: tuple[tuple[int, int], ...] = ()
    excluded_ranges: tuple[str, ...] = ()
    weight: int = 1
    uds_socket: str = ""
    is_managed: bool = True


def parse_declaration(annotations: Mapping[str, str], *, namespace: str, pod: str) -> Declaration:
    """Read a pod's annotations; keys that are not the mesh's are ignored.

    Raises:
        Rejected: with one diagnostic for every item that cannot be understood.
    """
    flaws: list[tuple[str, _Flaw]] = []

    def read(key: str, parse: "Callable[[str], _Parsed[T]]", default: T) -> T:
        if (text := annotations.get(key)) is None:
            return default
        value, found = parse(text)
        flaws.extend((key, flaw) for flaw in found)
        return value

    default_class = read(PROTOCOL, _parse_protocol, PortClass.HTTP)
    nothing: tuple[_Item, ...] = ()
    listed = read(PORTS, lambda text: _parse_ports(text, default_class), nothing)
    port = read(PORT, _parse_port, None)
    items = _with_port(listed, port, default_class, is_empty=PORTS not in annotations and PORT not in annotations)
    if len(items) > PORTS_PER_POD_LIMIT:
        why = f"{len(items)} ports are declared; a pod can declare {PORTS_PER_POD_LIMIT}"
        flaws.append((PORTS, _Flaw("too-many-ports", why, str(len(items)))))
    declaration = Declaration(
        ports=tuple(sorted(item.port for item in items)),
        codecs=tuple(sorted((item.port.number, item.codec) for item in items if item.codec is not None)),
        liveness=_liveness([item.port for item in items], port),
        upstreams=read(UPSTREAMS, lambda text: _parse_upstreams(text, namespace), ()),
        is_captured=read(REDIRECT_ALL, _parse_flag, True),  # noqa: FBT003 -- the annotation's default
        excluded_ports=read(EXCLUDED_PORTS, _parse_port_ranges, ()),
        excluded_ranges=read(EXCLUDED_RANGES, _parse_ranges, ()),
        weight=read(WEIGHT, _parse_weight, 1),
        uds_socket=read(UDS_SOCKET, _parse_socket, ""),
        is_managed=read(MANAGED, _parse_flag, True),  # noqa: FBT003 -- the annotation's default
    )
    if flaws:
        raise Rejected(_diagnostic(flaw, f"Pod {namespace}/{pod}", key) for key, flaw in flaws)
    return declaration


def is_managed(annotations: Mapping[str, str]) -> bool:
    """Whether a pod is in the mesh, also when the rest of its annotations cannot be read. Doubt is yes."""
    return annotations.get(MANAGED) != "false"


def validate_account(*, namespace: str, account: str, pod: str) -> None:
    """Refuse a ServiceAccount that cannot name a service (rulings A.3).

    Raises:
        Rejected: naming pod and account.
    """
    if not is_service_label(account):
        why = f"ServiceAccount {account!r} cannot name a service: an RFC 1035 label of at most 63 bytes is needed"
        flaw = _Flaw("bad-account", why, account)
        raise Rejected([_diagnostic(flaw, f"Pod {namespace}/{pod}", "", field="spec.serviceAccountName")])


class _Flaw(msgspec.Struct, frozen=True):
    code: str
    message: str
    item: str


class _Item(msgspec.Struct, frozen=True):
    """A declared port, and the codec of an http one."""

    port: DeclaredPort
    codec: Codec | None


_Parsed = tuple[T, tuple[_Flaw, ...]]

_SUFFIXES: Mapping[str, tuple[PortClass, Codec | None]] = {
    "h1": (PortClass.HTTP, Codec.H1),
    "h2": (PortClass.HTTP, Codec.H2),
    "http2": (PortClass.HTTP, Codec.H2),
    "grpc": (PortClass.HTTP, Codec.H2),
    "tcp": (PortClass.TCP, None),
    "udp": (PortClass.UDP, None),
}


def _diagnostic(flaw: _Flaw, subject: str, key: str, *, field: str = "") -> Diagnostic:
    return Diagnostic(
        code=flaw.code,
        message=flaw.message,
        subject=subject,
        field=field or f"metadata.annotations[{key}]",
        item=flaw.item,
    )


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _parse_protocol(text: str) -> _Parsed[PortClass]:
    try:
        return PortClass(text), ()
    except ValueError:
        return PortClass.HTTP, (_Flaw("bad-protocol", f"protocol {text!r} is none of http, tcp, udp", text),)


def _parse_ports(text: str, default: PortClass) -> _Parsed[tuple[_Item, ...]]:
    kept: dict[tuple[int, Transport], _Item] = {}
    flaws: list[_Flaw] = []
    for item in _items(text):
        parsed = _parse_item(item, default)
        if isinstance(parsed, _Flaw):
            flaws.append(parsed)
        elif (key := (parsed.port.number, parsed.port.transport)) in kept:
            why = f"port {parsed.port.number} is declared twice for {parsed.port.transport}"
            flaws.append(_Flaw("duplicate-port", why, item))
        else:
            kept[key] = parsed
    return tuple(kept.values()), tuple(flaws)


def _parse_item(item: str, default: PortClass) -> _Item | _Flaw:
    digits, separator, suffix = item.partition("=")
    if not separator:
        known = _class_of(default)
    elif suffix in _SUFFIXES:
        known = _SUFFIXES[suffix]
    else:
        return _Flaw("bad-port", f"port {item!r}: unknown suffix {suffix!r}, use one of {', '.join(_SUFFIXES)}", item)
    number = _parse_number(digits, item)
    return number if isinstance(number, _Flaw) else _Item(DeclaredPort(number, known[0]), known[1])


def _class_of(port_class: PortClass) -> tuple[PortClass, Codec | None]:
    return port_class, Codec.H1 if port_class is PortClass.HTTP else None


def _parse_number(digits: str, item: str) -> int | _Flaw:
    number = parse_port_number(digits)
    if number is None:
        return _Flaw("bad-port", f"port {item!r}: the number must be from 1 to 65535", item)
    if number in RESERVED_PORTS:
        return _Flaw("reserved-port", f"port {item!r}: the mesh reserves this number", item)
    return number


def _parse_port(text: str) -> _Parsed[int | None]:
    number = _parse_number(text.strip(), text)
    return (None, (number,)) if isinstance(number, _Flaw) else (number, ())


def _with_port(listed: tuple[_Item, ...], port: int | None, default: PortClass, *, is_empty: bool) -> tuple[_Item, ...]:
    """The listed ports, the `port` port unless it is one of them, and 8080 when the pod says nothing of ports."""
    number = DEFAULT_PORT if is_empty else port
    if number is None or any(item.port.number == number for item in listed):
        return listed
    port_class, codec = _class_of(default)
    return (*listed, _Item(DeclaredPort(number, port_class), codec))


def _liveness(ports: Iterable[DeclaredPort], port: int | None) -> DeclaredPort | None:
    """The `port` port, else the lowest http port, else the lowest raw-TCP port."""
    probed = [candidate for candidate in ports if candidate.transport is Transport.TCP]
    return min(
        probed,
        key=lambda candidate: (candidate.number != port, candidate.port_class is not PortClass.HTTP, candidate.number),
        default=None,
    )


def _parse_upstreams(text: str, namespace: str) -> _Parsed[tuple[ServiceId, ...]]:
    services: set[ServiceId] = set()
    flaws: list[_Flaw] = []
    for item in _items(text) if text.strip() else []:
        head, slash, tail = item.partition("/")
        service = ServiceId(head, tail) if slash else ServiceId(namespace, head)
        if is_label(service.namespace) and is_service_label(service.name):
            services.add(service)
        else:
            flaws.append(
                _Flaw("bad-upstream", f"upstream {item!r} is neither <service> nor <namespace>/<service>", item)
            )
    return tuple(sorted(services)), tuple(flaws)


def _parse_flag(text: str) -> _Parsed[bool]:
    if text in ("true", "false"):
        return text == "true", ()
    return True, (_Flaw("bad-flag", f'{text!r} is neither "true" nor "false"', text),)


def _parse_port_ranges(text: str) -> _Parsed[tuple[tuple[int, int], ...]]:
    """Ranges in ascending order, those that touch joined."""
    ranges: list[tuple[int, int]] = []
    flaws: list[_Flaw] = []
    for item in _items(text) if text.strip() else []:
        head, dash, tail = item.partition("-")
        first, last = parse_port_number(head), parse_port_number(tail if dash else head)
        if first is None or last is None or first > last:
            why = f"{item!r} is neither a port nor a range of ports from 1 to 65535, lower first"
            flaws.append(_Flaw("bad-port-range", why, item))
        else:
            ranges.append((first, last))
    return _joined(sorted(ranges)), tuple(flaws)


def _joined(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def _parse_ranges(text: str) -> _Parsed[tuple[str, ...]]:
    """Networks of both families, IPv4 first, none inside another."""
    v4: list[ipaddress.IPv4Network] = []
    v6: list[ipaddress.IPv6Network] = []
    flaws: list[_Flaw] = []
    for item in _items(text) if text.strip() else []:
        try:
            network = ipaddress.ip_network(item)
        except ValueError as error:
            flaws.append(_Flaw("bad-range", f"{item!r} is no address range: {error}", item))
            continue
        if isinstance(network, ipaddress.IPv4Network):
            v4.append(network)
        else:
            v6.append(network)
    collapsed = [*ipaddress.collapse_addresses(v4), *ipaddress.collapse_addresses(v6)]
    return tuple(str(network) for network in collapsed), tuple(flaws)


_WEIGHT = re.compile("[1-9][0-9]{0,4}")


def _parse_weight(text: str) -> _Parsed[int]:
    if _WEIGHT.fullmatch(text) and int(text) <= WEIGHT_LIMIT:
        return int(text), ()
    return 1, (_Flaw("bad-weight", f"weight {text!r} is not a number from 1 to {WEIGHT_LIMIT}", text),)


def _parse_socket(text: str) -> _Parsed[str]:
    parts = text.split("/")
    if parts[0] or not parts[-1] or ".." in parts or "\0" in text:
        return "", (_Flaw("bad-socket", f"{text!r} is not an absolute path of a socket", text),)
    if len(text.encode(errors="surrogatepass")) > SOCKET_PATH_LIMIT_BYTES:
        why = f"the path of the socket is longer than {SOCKET_PATH_LIMIT_BYTES} bytes"
        return "", (_Flaw("bad-socket", why, text),)
    return text, ()
