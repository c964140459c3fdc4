"""The addressing rule as an executable truth table (spec section 3, rulings B and C).

Owns: the answer to (entry path, authority, dialled address and port, caller). Everything that delivers is proved
against this module by the delivery property (tests/properties).
"""

import enum
from collections.abc import Iterable, Mapping

import msgspec

from aether.model.facts import MeshConfig
from aether.model.names import Authority, FullName, ServiceId, ShortName, parse_authority, parse_name, spelled_host
from aether.model.ports import PROXY_PORT, RETIRED_PORT, PortClass, Transport, parse_port_number
from aether.plan.mesh.naming import http_cluster, own_cluster, pod_cluster, raw_cluster
from aether.plan.mesh.services import ServicePort, ServiceView


class Reason(enum.StrEnum):
    """Why a request is refused: the value of `x-aether-error`."""

    PORT_MISMATCH = "port-mismatch"
    PORT_REQUIRED = "port-required"
    PORT_NOT_DECLARED = "port-not-declared"
    PORT_NOT_HTTP = "port-not-http"
    CALLER_NAMESPACE_UNKNOWN = "caller-namespace-unknown"


class EntryPath(enum.StrEnum):
    CAPTURED = "captured"
    PROXY_PORT = "proxy-port"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request as the source proxy meets it.

    `dialled_address` and `dialled_port` are the connection's destination before capture; on the listener
    127.0.0.1:18081 they are 127.0.0.1 and 18081. `caller_namespace` is None for a connection that carries none.
    """

    path: EntryPath
    authority: str
    dialled_address: str
    dialled_port: int
    caller_namespace: str | None


class RawConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A captured connection that is not recognised as HTTP (or whose port is raw TCP, whatever its bytes)."""

    dialled_address: str
    dialled_port: int
    is_http: bool = False


class Deliver(msgspec.Struct, frozen=True, tag=True):
    """To the service's port over the mesh hop. `cluster` is the Envoy cluster's name, `target` the pods' port."""

    service: ServiceId
    port: int
    target: int
    cluster: str


class Refuse(msgspec.Struct, frozen=True, tag=True):
    """421, with `x-aether-error` and a body that lists the service's ports.

    `service` is the one that the authority or the dialled pod means, known or not. A short name without a caller
    namespace means several: then it is the first of them.
    """

    reason: Reason
    service: ServiceId


class PassThrough(msgspec.Struct, frozen=True, tag=True):
    """To the dialled address, as if there were no mesh."""


class NotFound(msgspec.Struct, frozen=True, tag=True):
    """404: on the proxy port, a name that is not the mesh's."""


Outcome = Deliver | Refuse | PassThrough | NotFound


class DialledPod(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """A registered pod's address and what may be dialled there: its own TCP ports, (number, class), sorted."""

    address: str
    service: ServiceId
    ports: tuple[tuple[int, PortClass], ...]


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """Every name and address of the mesh, for look-up. `owners` has Service addresses, `pods` pod addresses.

    `namespaces_by_short_name` has only the services that answer to their short name.
    """

    config: MeshConfig
    views: Mapping[ServiceId, ServiceView]
    namespaces_by_short_name: Mapping[str, tuple[str, ...]]
    owners: Mapping[str, ServiceId]
    pods: Mapping[str, DialledPod]


def build_directory(views: Iterable[ServiceView], pods: Iterable[DialledPod], config: MeshConfig) -> Directory:
    """Index views and dialled pods. An address that two services claim is the first one's by name."""
    ordered = sorted(views, key=lambda view: view.service)
    owners: dict[str, ServiceId] = {}
    namespaces: dict[str, list[str]] = {}
    for view in ordered:
        for address in view.addresses:
            owners.setdefault(address, view.service)
        if not view.is_user_owned:
            namespaces.setdefault(view.service.name, []).append(view.service.namespace)
    return Directory(
        config=config,
        views={view.service: view for view in ordered},
        namespaces_by_short_name={name: tuple(found) for name, found in namespaces.items()},
        owners=owners,
        pods={pod.address: pod for pod in pods},
    )


def is_mesh_address(address: str, directory: Directory) -> bool:
    """Rulings B.1."""
    return address in directory.owners or address in directory.pods


def answer_http(request: HttpRequest, directory: Directory) -> Outcome:
    """What becomes of one request that the capture or the proxy port recognised as HTTP."""
    if request.path is EntryPath.PROXY_PORT:
        return _answer_on_proxy_port(request, directory)
    if not is_mesh_address(request.dialled_address, directory):
        return PassThrough()
    if request.dialled_port == PROXY_PORT:
        return _answer_on_proxy_port(request, directory)
    if (raw := _find_raw(request.dialled_address, request.dialled_port, directory)) is not None:
        return raw
    if (pod := directory.pods.get(request.dialled_address)) is not None:
        return answer_at_pod(pod, request.dialled_port)
    return _answer_captured(request, directory)


def answer_raw(connection: RawConnection, directory: Directory) -> Outcome:
    """What becomes of a captured connection by its address and port alone."""
    return _find_raw(connection.dialled_address, connection.dialled_port, directory) or PassThrough()


def answer_at_pod(pod: DialledPod, number: int) -> Deliver | Refuse:
    """A dialled pod is meant, whatever Host says (rulings B.4). HTTP is never delivered to a raw-TCP port (B.3)."""
    if (number, PortClass.HTTP) in pod.ports:
        return Deliver(pod.service, number, number, pod_cluster(pod.address, number))
    is_raw = (number, PortClass.TCP) in pod.ports
    return Refuse(Reason.PORT_NOT_HTTP if is_raw else Reason.PORT_NOT_DECLARED, pod.service)


def refusal_body(reason: Reason, authority: str, ports: Iterable[ServicePort]) -> str:
    """The text of a 421: ``cart.shop.aether.internal serves 8080=http, 9000=tcp`` (rulings C.6)."""
    name = spelled_host(authority)[:NAME_LIMIT_BYTES]
    if reason is Reason.CALLER_NAMESPACE_UNKNOWN:
        return f"{name} {CALLER_UNKNOWN_TEXT}"
    return f"{name} {port_list(ports)}"


def refusal_ports(refusal: Refuse, request: HttpRequest, directory: Directory) -> tuple[ServicePort, ...]:
    """What a refusal lists: the ports of the dialled pod where one is meant, else those of the service.

    None for a name that is not the mesh's, though there is such a service: a Kubernetes name that the user owns.
    """
    pod = directory.pods.get(request.dialled_address)
    if pod is not None and request.dialled_port != PROXY_PORT:
        return pod_ports(pod)
    view = directory.views.get(refusal.service)
    is_named = _resolve(parse_authority(request.authority), request, directory) is view
    return view.ports if view is not None and is_named else ()


def pod_ports(pod: DialledPod) -> tuple[ServicePort, ...]:
    """What is said of a dialled pod: its ports, each by its own number."""
    return tuple(ServicePort(number, port_class, number) for number, port_class in pod.ports)


NAME_LIMIT_BYTES = 253
"""How much of the name a refusal repeats: the longest DNS name (RFC 1035, section 2.3.4)."""

CALLER_UNKNOWN_TEXT = "is a short name, and this connection does not carry its caller's namespace"


def port_list(ports: Iterable[ServicePort]) -> str:
    """``serves 8080=http, 9000=tcp``, sorted by number, then class."""
    spelled = ", ".join(f"{port.number}={port.port_class.value}" for port in sorted(ports))
    return f"serves {spelled}" if spelled else "serves no ports"


def find_port(ports: Iterable[ServicePort], number: int, transport: Transport) -> ServicePort | None:
    return next((port for port in ports if port.number == number and port.port_class.transport is transport), None)


def own_port_cluster(view: ServiceView, number: int, config: MeshConfig) -> str:
    """The cluster of a captured dial to a user-owned service's own pod port (rulings C.4).

    The name of an http port of that number, unless the Service's map means another pod port by it.
    """
    mapped = find_port(view.ports, number, Transport.TCP)
    if mapped is None or mapped.target == number:
        return http_cluster(view.service, number, config.domains)
    return own_cluster(view.service, number, config.domains)


def _find_raw(address: str, number: int, directory: Directory) -> Deliver | PassThrough | None:
    """What takes every byte at an address of the raw-TCP set; None outside of it (rulings B.1, C.4)."""
    if (pod := directory.pods.get(address)) is not None:
        is_raw = (number, PortClass.TCP) in pod.ports
        return Deliver(pod.service, number, number, raw_cluster(address, number)) if is_raw else None
    if (service := directory.owners.get(address)) is None:
        return None
    view = directory.views[service]
    port = find_port(view.ports, number, Transport.TCP)
    if port is None or port.port_class is not PortClass.TCP:
        return None
    return PassThrough() if view.is_user_owned else Deliver(service, number, port.target, raw_cluster(address, number))


def _answer_captured(request: HttpRequest, directory: Directory) -> Outcome:
    authority = parse_authority(request.authority)
    view = _resolve(authority, request, directory)
    if not isinstance(view, ServiceView):
        return PassThrough() if view is None else view
    number = request.dialled_port
    is_host_port_fine = authority.port in (None, str(number))
    if view.is_user_owned:
        return _answer_owned(view, number, directory) if is_host_port_fine else PassThrough()
    port = find_port(view.ports, number, Transport.TCP)
    if port is None:
        return Refuse(Reason.PORT_NOT_DECLARED, view.service)
    if port.port_class is not PortClass.HTTP:
        return Refuse(Reason.PORT_NOT_HTTP, view.service)
    return _deliver(view, port, directory) if is_host_port_fine else Refuse(Reason.PORT_MISMATCH, view.service)


def _answer_owned(view: ServiceView, number: int, directory: Directory) -> Outcome:
    """A user-owned service is never refused on a captured dial (rulings C.4)."""
    port = find_port(view.declared, number, Transport.TCP)
    if port is None or port.port_class is not PortClass.HTTP:
        return PassThrough()
    return Deliver(view.service, number, number, own_port_cluster(view, number, directory.config))


def _answer_on_proxy_port(request: HttpRequest, directory: Directory) -> Outcome:
    authority = parse_authority(request.authority)
    view = _resolve(authority, request, directory)
    if isinstance(view, Refuse):
        return view
    if view is None:
        return _answer_unknown_name(authority, directory)
    if authority.port is None:
        return _answer_port(view, 80, directory, absent=Reason.PORT_REQUIRED)
    number = parse_port_number(authority.port)
    if number is None:
        return Refuse(Reason.PORT_NOT_DECLARED, view.service)
    return _answer_port(view, number, directory, absent=Reason.PORT_NOT_DECLARED)


def _answer_unknown_name(authority: Authority, directory: Directory) -> Outcome:
    """404, but a full name with the proxy's own port is refused though nothing is known of it (spec section 3)."""
    name = parse_name(authority.host, directory.config.domains)
    if isinstance(name, FullName) and authority.port in (str(PROXY_PORT), str(RETIRED_PORT)):
        return Refuse(Reason.PORT_NOT_DECLARED, name.service)
    return NotFound()


def _answer_port(view: ServiceView, number: int, directory: Directory, *, absent: Reason) -> Outcome:
    port = find_port(view.ports, number, Transport.TCP)
    if port is not None and port.port_class is PortClass.HTTP:
        return _deliver(view, port, directory)
    if port is not None or find_port(view.ports, number, Transport.UDP) is not None:
        return Refuse(Reason.PORT_NOT_HTTP, view.service)
    return Refuse(absent, view.service)


def _deliver(view: ServiceView, port: ServicePort, directory: Directory) -> Deliver:
    cluster = http_cluster(view.service, port.number, directory.config.domains)
    return Deliver(view.service, port.number, port.target, cluster)


def _resolve(authority: Authority, request: HttpRequest, directory: Directory) -> ServiceView | Refuse | None:
    """The service that the authority names for this caller; None for a name that is not the mesh's."""
    match parse_name(authority.host, directory.config.domains):
        case FullName(service=service, is_mesh_name=is_mesh_name):
            view = directory.views.get(service)
            return view if view is not None and (is_mesh_name or not view.is_user_owned) else None
        case ShortName(name=name):
            return _resolve_short(name, request.caller_namespace, directory)
        case _:
            return None


def _resolve_short(name: str, caller_namespace: str | None, directory: Directory) -> ServiceView | Refuse | None:
    namespaces = directory.namespaces_by_short_name.get(name, ())
    if not namespaces or caller_namespace in namespaces:
        return directory.views[ServiceId(caller_namespace or "", name)] if namespaces else None
    if caller_namespace is None:
        return Refuse(Reason.CALLER_NAMESPACE_UNKNOWN, ServiceId(namespaces[0], name))
    return None
