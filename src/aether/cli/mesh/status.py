"""`aether status`: one look at everything that serves."""

from collections.abc import Iterable

from aether.cli.client import open_world
from aether.cli.format import Output
from aether.cli.output import console, escaped, print_data, print_line, print_table
from aether.model.world import NodeStatus, PortStatus, ReasonCount, ServiceStatus, WorldStatus


def run_status(world: str | None, output: Output) -> None:
    status = open_world(world).get("/v1/status", reply=WorldStatus)
    if output in {Output.JSON, Output.YAML}:
        print_data(status, output)
    else:
        print_status(status)


def print_status(status: WorldStatus) -> None:
    """Services, nodes, then whatever is wrong."""
    print_line(f"world {status.world}, mesh domain {status.mesh_domain}")
    print_line()
    headers = ("SERVICE", "PORTS", "ADDRESSES", "ENDPOINTS", "REFUSALS")
    print_table(headers, (_service_row(service) for service in status.services))
    if status.other_refusals:
        print_line(f"refused under other names: {format_reasons(status.other_refusals)}")
    print_line()
    print_table(("NODE", "AGENT", "ENVOY", "PODS"), (_node_row(node) for node in status.nodes))
    _print_wrong(status)


def format_ports(ports: Iterable[PortStatus]) -> str:
    """``80=http→8080 9000=tcp``: the target is given where it differs."""
    return " ".join(
        f"{port.number}={port.port_class}" + (f"→{port.target}" if port.target != port.number else "") for port in ports
    )


def format_reasons(reasons: Iterable[ReasonCount]) -> str:
    return ", ".join(f"{reason.count} {reason.reason}" for reason in reasons)


def _service_row(service: ServiceStatus) -> tuple[str, ...]:
    colour = "green" if service.healthy == service.endpoints > 0 else "yellow" if service.healthy else "red"
    owner = " (user's)" if service.is_user_owned else ""
    return (
        escaped(f"{service.namespace}/{service.name}{owner}"),
        escaped(format_ports(service.ports) or "-"),
        escaped(" ".join(service.addresses) or ("headless" if service.is_headless else "-")),
        f"[{colour}]{service.healthy}/{service.endpoints}[/]",
        f"[yellow]{escaped(format_reasons(service.refusals))}[/]" if service.refusals else "-",
    )


def _node_row(node: NodeStatus) -> tuple[str, ...]:
    envoy = "live" if node.is_proxy_live else "down"
    if node.rejections:
        envoy += f", {len(node.rejections)} rejected"
    return (
        escaped(node.name),
        _coloured("connected" if node.is_agent_connected else "away", is_good=node.is_agent_connected),
        _coloured(envoy, is_good=node.is_proxy_live and not node.rejections),
        _coloured(f"{node.pods_ready}/{node.pods} ready", is_good=node.pods_ready == node.pods),
    )


def _print_wrong(status: WorldStatus) -> None:
    lines = [
        *(f"pod {pod.namespace}/{pod.name}: {pod.reason}" for pod in status.pod_problems),
        *(str(problem) for problem in status.problems),
        *(f"{node.name}: Envoy rejected {rejection}" for node in status.nodes for rejection in node.rejections),
    ]
    if lines:
        print_line()
    for line in lines:
        console().print(f"[yellow]![/] {escaped(line)}")


def _coloured(text: str, *, is_good: bool) -> str:
    return f"[{'green' if is_good else 'red'}]{text}[/]"
