"""What a running world says of itself: the values that the local API sends and its clients read."""

import enum

import msgspec

from aether.errors import Diagnostic
from aether.model.facts import MeshConfig


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The text of one file of manifests. `where` names the file in everything said about it."""

    where: str
    text: str


class AppliedObject(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """`action` is `created`, `configured` or `unchanged`."""

    kind: str
    namespace: str
    name: str
    action: str


class ApplyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of some manifests: the good documents are applied, each bad one has its diagnostics.

    `warnings` are about documents that were applied: fields that have no meaning here.
    """

    applied: tuple[AppliedObject, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


class PortStatus(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A port clients can dial. `target` differs from `number` only behind a user Service's port map."""

    number: int
    port_class: str
    target: int


class ReasonCount(msgspec.Struct, frozen=True, kw_only=True, order=True):
    reason: str
    count: int


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One mesh service. `refusals` are summed over the nodes' reports, sorted by reason."""

    namespace: str
    name: str
    ports: tuple[PortStatus, ...]
    addresses: tuple[str, ...]
    healthy: int
    endpoints: int
    refusals: tuple[ReasonCount, ...] = ()
    is_user_owned: bool = False
    is_headless: bool = False


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One node. Without a connected agent everything but `name` and the pods is unknown, and said as no."""

    name: str
    is_agent_connected: bool
    is_proxy_live: bool
    pods_ready: int
    pods: int
    problems: tuple[Diagnostic, ...] = ()
    rejections: tuple[str, ...] = ()


class PodProblem(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A pod that is not ready, and why as far as its status tells."""

    namespace: str
    name: str
    reason: str


class WorldStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `aether status` prints. Services and nodes are sorted by name.

    `pods_wanted` is how many pods there should be (Deployments' replicas and single pods), `endpoints_wanted` how many
    of them are for the mesh to register.
    """

    world: str
    version: str
    mesh_domain: str
    pods_wanted: int = 0
    endpoints_wanted: int = 0
    services: tuple[ServiceStatus, ...] = ()
    nodes: tuple[NodeStatus, ...] = ()
    pod_problems: tuple[PodProblem, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    other_refusals: tuple[ReasonCount, ...] = ()

    @property
    def pods_ready(self) -> int:
        return sum(node.pods_ready for node in self.nodes)

    @property
    def pods(self) -> int:
        return sum(node.pods for node in self.nodes)


class CheckVerdict(enum.StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One fact that was looked at. `why` and `advice` are empty when it is as it should be."""

    fact: str
    verdict: CheckVerdict = CheckVerdict.OK
    why: str = ""
    advice: str = ""


class CheckSection(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    checks: tuple[Check, ...]


class Via(enum.StrEnum):
    """How a client's connection enters the mesh."""

    CAPTURED = "captured"
    PROXY = "proxy"


class ExplainRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One hypothetical request of a pod.

    `target` is an http URL or ``HOST:PORT`` (a raw TCP connection). `host_header` replaces the Host that a client would
    send for the URL. `via` says whether the pod dials the name or the mesh's HTTP proxy port. An agent is asked with
    the pod's exact namespace and name; `kind` lets a client of the world's API ask for a Deployment's pod.
    """

    namespace: str
    pod: str
    target: str
    kind: str = ""
    host_header: str = ""
    via: Via = Via.CAPTURED


class ExplainStep(msgspec.Struct, frozen=True, kw_only=True):
    """One stage that the connection passes; the last one that `is_ok` is false of is where it stops."""

    stage: str
    says: str
    is_ok: bool = True


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a request and why.

    `outcome` is `deliver`, `refuse`, `pass-through`, `not-found`, `closed` or `unknown`; `reason` the value of
    `x-aether-error` if there is one; `advice` what to do about it.
    """

    outcome: str
    summary: str
    steps: tuple[ExplainStep, ...] = ()
    reason: str = ""
    advice: str = ""


class ScopeEntry(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A service whose endpoints a node holds. `because` is `own`, `declared` or `observed`."""

    namespace: str
    name: str
    because: str
    clusters: tuple[str, ...] = ()


class NodeScope(msgspec.Struct, frozen=True, kw_only=True):
    """What a node holds beyond the directory, which every node holds whole (`directory` is its size in services).

    `misses` counts the names that its proxy asked for on demand since the agent started.
    """

    node: str
    directory: int
    misses: int = 0
    entries: tuple[ScopeEntry, ...] = ()


class ResourceVersion(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A resource of the node's live Envoy snapshot; versions are hashes of content."""

    type_url: str
    name: str
    version: str


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a node's agent says of itself.

    `acknowledged` counts the resources that Envoy has accepted, `sent` those sent to it since this agent started.
    """

    node: str
    is_control_connected: bool
    is_proxy_live: bool
    resources: int = 0
    acknowledged: int = 0
    sent: int = 0
    rejections: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()


class ExecRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Run `command` in a container of a pod. `terminal` is the caller's TERM, "" if it has no terminal.

    `container` "" is the first. The backend is asked with the pod's exact namespace and name; `kind` is as in
    `ExplainRequest`.
    """

    namespace: str
    pod: str
    command: tuple[str, ...]
    kind: str = ""
    container: str = ""
    terminal: str = ""


class WorldOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a single-machine world is started with: the one argument of `aether.app.standalone`, as JSON.

    `runtime_root` and `state_root` are the folders in which the world has its own (inside a world everybody is root, so
    they cannot be derived there). `keeps_applied` false forgets what was applied to the world of this name before.
    """

    name: str
    runtime_root: str
    state_root: str
    nodes: int = 1
    keeps_applied: bool = True
    config: MeshConfig = MeshConfig()


class Signal(msgspec.Struct, frozen=True):
    """From a client of exec.sock: pass this signal to the command."""

    number: int


class Exited(msgspec.Struct, frozen=True, tag=True):
    """The command ended; `code` is 128 + n if signal n ended it."""

    code: int


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The command was not started: a problem's code, its text and its HTTP status."""

    code: str
    detail: str
    status: int


ExecAnswer = Exited | Refused
