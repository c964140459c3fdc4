"""`aether scope`: which services' endpoints a node holds."""

from aether.cli.client import open_world, path_of
from aether.cli.format import Output
from aether.cli.output import escaped, print_data, print_line, print_table
from aether.model.world import NodeScope


def run_scope(world: str | None, node: str, output: Output) -> None:
    scope = open_world(world).get(path_of("scope", node), reply=NodeScope)
    if output in {Output.JSON, Output.YAML}:
        print_data(scope, output)
        return
    print_line(
        f"node {scope.node}: directory of {scope.directory} services, endpoints of {len(scope.entries)}, "
        f"asked for on demand {scope.misses} times"
    )
    print_line()
    print_table(
        ("SERVICE", "BECAUSE", "CLUSTERS"),
        (
            (escaped(f"{entry.namespace}/{entry.name}"), entry.because, escaped(" ".join(entry.clusters)))
            for entry in scope.entries
        ),
    )
