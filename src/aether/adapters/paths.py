"""Where a world keeps its files: sockets and logs that go with it, and the state that outlives it."""

import os
import re
from pathlib import Path

from aether.errors import AetherError

DEFAULT_WORLD = "default"
_WORLD_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


class BadWorldName(AetherError):
    code = "bad-world-name"

    def __init__(self, name: str) -> None:
        super().__init__(f"world {name!r}: a name has 1 to 32 lower-case letters, digits and inner dashes")


class WorldPaths:
    """Every path of one world. `runtime` dies with the machine, `state` is kept.

    Root uses /run/aether and /var/lib/aether; an ordinary user XDG_RUNTIME_DIR (else /tmp/aether-<uid>) and
    XDG_STATE_HOME (else ~/.local/state). AETHER_RUNTIME_DIR and AETHER_STATE_DIR come before either. A unix socket path
    has at most 107 bytes, which the short names here respect.
    """

    def __init__(self, name: str, *, runtime: Path, state: Path) -> None:
        if not _WORLD_NAME.fullmatch(name):
            raise BadWorldName(name)
        self.name = name
        self.runtime = runtime / name
        self.state = state / name

    @classmethod
    def of_user(cls, name: str, *, uid: int | None = None) -> "WorldPaths":
        """The paths of this user's world `name`; `uid` is the user's on the host (inside a world everybody is 0)."""
        return cls(name, runtime=runtime_root(uid), state=state_root(uid))

    @property
    def api_socket(self) -> Path:
        return self.runtime / "api.sock"

    @property
    def exec_socket(self) -> Path:
        return self.runtime / "exec.sock"

    @property
    def node_socket(self) -> Path:
        """Where agents find the control plane."""
        return self.runtime / "control.sock"

    @property
    def log(self) -> Path:
        return self.runtime / "world.log"

    @property
    def netns(self) -> Path:
        return self.runtime / "netns"

    @property
    def pods(self) -> Path:
        return self.runtime / "pods"

    @property
    def applied(self) -> Path:
        return self.state / "applied.json"

    @property
    def ca(self) -> Path:
        return self.state / "ca"

    def node(self, name: str) -> "NodePaths":
        return NodePaths(self.runtime / "nodes" / name, netns=self.netns / f"node-{name}")


class NodePaths:
    """The files of one node of a world."""

    def __init__(self, directory: Path, *, netns: Path) -> None:
        self.directory = directory
        self.netns = netns
        self.agent_socket = directory / "agent.sock"
        self.ads_socket = directory / "ads.sock"
        self.admin_socket = directory / "admin.sock"
        self.bootstrap = directory / "bootstrap.json"
        self.zone = directory / "dns.json"
        self.zone_reload = directory / "dns.sock"
        self.access_log = directory / "access.log"
        self.envoy_log = directory / "envoy.log"
        self.agent_log = directory / "agent.log"
        self.dns_log = directory / "dns.log"
        self.identities = directory / "identities"
        self.observed = directory / "observed.json"


def runtime_root(uid: int | None = None) -> Path:
    if given := os.environ.get("AETHER_RUNTIME_DIR"):
        return Path(given)
    uid = os.getuid() if uid is None else uid
    if uid == 0:
        return Path("/run/aether")
    return Path(os.environ.get("XDG_RUNTIME_DIR", f"/tmp/aether-{uid}")) / "aether"


def state_root(uid: int | None = None) -> Path:
    if given := os.environ.get("AETHER_STATE_DIR"):
        return Path(given)
    uid = os.getuid() if uid is None else uid
    if uid == 0:
        return Path("/var/lib/aether")
    return Path(os.environ.get("XDG_STATE_HOME", str(Path.home() / ".local/state"))) / "aether"
