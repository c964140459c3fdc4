"""The `aether` command: every command's options and help; what they do is in the modules beside this one.

Rule: only Typer and two small modules are imported at the top, so that `aether --help` and completion answer at once.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from aether.cli.format import Output
from aether.errors import AetherError

app = typer.Typer(
    name="aether",
    help="A service mesh on one machine or many: real ports, one Envoy per node, explained refusals.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMPLETION_VARIABLE = "_AETHER_COMPLETE"

World = Annotated[
    str | None,
    typer.Option("--world", envvar="AETHER_WORLD", metavar="NAME", help="Which world, if several run."),
]
Namespace = Annotated[str | None, typer.Option("-n", "--namespace", metavar="NS", help="The namespace to look in.")]
OutputFormat = Annotated[Output, typer.Option("-o", "--output", metavar="FORMAT", help="table, wide, json or yaml.")]
Container = Annotated[
    str, typer.Option("-c", "--container", metavar="NAME", help="Which container.", show_default="the first")
]
PodName = Annotated[
    str, typer.Argument(metavar="POD", help="NAME, NS/NAME or deploy/NAME (then: one of the Deployment's pods).")
]


@app.command()
def up(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR", help="Manifests to apply: files, or directories of them.")
    ] = None,
    *,
    nodes: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="How many nodes.")] = 1,
    detach: Annotated[bool, typer.Option("--detach", help="Return when everything runs; end it with `down`.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what was applied to this world before.")] = False,
    world: Annotated[
        str, typer.Option("--world", envvar="AETHER_WORLD", metavar="NAME", help="The new world's name.")
    ] = "default",
    mesh_domain: Annotated[
        str, typer.Option(metavar="DOMAIN", help="The domain of mesh names: SERVICE.NAMESPACE.DOMAIN.")
    ] = "aether.internal",
    trust_domain: Annotated[
        str, typer.Option(metavar="DOMAIN", help="The trust domain of identities.", show_default="the mesh domain")
    ] = "",
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for pods to be ready.")] = 60.0,
) -> None:
    """Start a mesh on this machine, apply manifests to it, and stay until Ctrl-C."""
    from aether.cli.world.up import UpOptions, run_up

    code = run_up(
        UpOptions(
            directories=tuple(directories or ()),
            nodes=nodes,
            is_detached=detach,
            is_fresh=fresh,
            world=world,
            mesh_domain=mesh_domain,
            trust_domain=trust_domain or mesh_domain,
            timeout_s=timeout,
        )
    )
    sys.exit(code)


@app.command()
def down(
    *,
    forget: Annotated[bool, typer.Option("--forget", help="Forget what was applied, too.")] = False,
    world: World = None,
) -> None:
    """End a world: its pods, its proxies, its namespaces. What was applied is kept for the next `up`."""
    from aether.cli.world.down import run_down

    run_down(world, is_forgotten=forget)


@app.command()
def apply(
    files: Annotated[
        list[str], typer.Option("-f", "--filename", metavar="FILE|DIR|-", help="Manifests; - is the standard input.")
    ],
    *,
    output: OutputFormat = Output.TABLE,
    world: World = None,
) -> None:
    """Apply manifests. Good documents are applied, bad ones reported; nothing that runs is unloaded by a mistake."""
    from aether.cli.objects.apply import run_apply

    sys.exit(run_apply(world, files, output))


@app.command()
def get(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="pods, services, deployments, … or `all`.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="NAME or NS/NAME.")] = None,
    *,
    namespace: Namespace = None,
    everywhere: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Look in every namespace.")] = False,
    output: OutputFormat = Output.TABLE,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Then show every change, until Ctrl-C.")] = False,
    world: World = None,
) -> None:
    """List objects, or print one."""
    from aether.cli.objects.get import Selection, run_get

    run_get(world, Selection.of(kind, name, namespace, is_everywhere=everywhere), output, is_watching=watch)


@app.command()
def delete(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="pod, service, deployment, …")] = None,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="NAME or NS/NAME.")] = None,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE|DIR|-", help="Delete what these manifests name."),
    ] = None,
    namespace: Namespace = None,
    grace: Annotated[
        int | None, typer.Option("--grace-period", min=0, metavar="SECONDS", help="Time for a pod to end by itself.")
    ] = None,
    world: World = None,
) -> None:
    """Delete objects, and what they own."""
    from aether.cli.objects.delete import run_delete, select

    sys.exit(run_delete(world, select(kind, names or [], files or [], namespace), grace_s=grace))


@app.command()
def describe(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="pod, service, deployment, …")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="NAME or NS/NAME.")],
    *,
    namespace: Namespace = None,
    world: World = None,
) -> None:
    """Everything worth knowing of one object, in words."""
    from aether.cli.objects.describe import run_describe

    run_describe(world, kind, name, namespace)


@app.command()
def logs(
    pod: PodName,
    *,
    container: Container = "",
    namespace: Namespace = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Then print what comes, until Ctrl-C.")] = False,
    tail: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the last N lines.")] = None,
    world: World = None,
) -> None:
    """Print what a container writes."""
    from aether.cli.address import parse_pod
    from aether.cli.pods.logs import run_logs

    run_logs(world, parse_pod(pod, namespace), container=container, tail=tail, is_following=follow)


@app.command(name="exec")
def exec_(
    pod: PodName,
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="What to run, after `--`: exec POD -- CMD ARG…")],
    *,
    container: Container = "",
    namespace: Namespace = None,
    world: World = None,
) -> None:
    """Run a command in a pod, on this terminal. Its exit code is the command's."""
    from aether.cli.address import parse_pod
    from aether.cli.pods.execute import run_exec

    sys.exit(run_exec(world, parse_pod(pod, namespace), container=container, command=command))


@app.command()
def status(*, output: OutputFormat = Output.TABLE, world: World = None) -> None:
    """Services with their ports, endpoints and refusals; nodes with their proxies and pods."""
    from aether.cli.mesh.status import run_status

    run_status(world, output)


@app.command()
def check(*, output: OutputFormat = Output.TABLE, world: World = None) -> None:
    """Look at everything that must be true, one fact a line, and say what to do. Works without a world, too."""
    from aether.cli.mesh.check import run_check

    sys.exit(run_check(world, output))


@app.command()
def explain(
    pod: PodName,
    target: Annotated[str, typer.Argument(metavar="URL|HOST:PORT", help="What the pod would call.")],
    *,
    host: Annotated[
        str, typer.Option("-H", "--host", metavar="HOST", help="The Host header.", show_default="URL's")
    ] = "",
    proxy: Annotated[bool, typer.Option("--proxy", help="By the mesh's HTTP proxy port, not by dialling.")] = False,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    world: World = None,
) -> None:
    """Say what becomes of a pod's request, step by step, and why."""
    from aether.cli.address import parse_pod
    from aether.cli.mesh.explain import run_explain

    run_explain(world, parse_pod(pod, namespace), target, host=host, is_by_proxy=proxy, output=output)


@app.command()
def scope(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.")],
    *,
    output: OutputFormat = Output.TABLE,
    world: World = None,
) -> None:
    """Which services' endpoints a node holds, and because of what."""
    from aether.cli.mesh.scope import run_scope

    run_scope(world, node, output)


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="For which shell.")] = "bash",
) -> None:
    """Print a completion script: `source <(aether completion bash)`."""
    from aether.cli.completion import run_completion

    run_completion(shell, _COMPLETION_VARIABLE)


@app.command()
def version(*, output: OutputFormat = Output.TABLE, world: World = None) -> None:
    """The versions of this program, of Envoy, and of the running world."""
    from aether.cli.world.version import run_version

    run_version(world, output)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: runs a command (by default the process's own), turns errors into messages and exit codes."""
    if _COMPLETION_VARIABLE in os.environ:
        from aether.cli.completion import answer_completions

        answer_completions()
    try:
        app(arguments, prog_name="aether")
    except AetherError as error:
        from aether.cli.output import print_error

        sys.exit(print_error(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
