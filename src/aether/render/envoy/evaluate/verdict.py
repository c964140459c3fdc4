"""What Envoy does with a connection or a request, with the way it got there.

Owns: the values the evaluator answers with. Everybody who explains, checks or prints reads these and decides nothing.
"""

import enum

import msgspec


class StepKind(enum.StrEnum):
    """The stages of Envoy's processing, in their usual order."""

    LISTENER = "listener"
    CHAIN = "filter chain"
    NETWORK_FILTER = "network filter"
    TABLE = "route table"
    VIRTUAL_HOST = "virtual host"
    ROUTE = "route"
    HTTP_FILTER = "http filter"
    CHOICE = "cluster choice"
    ANSWER = "answer"
    CLUSTER = "cluster"
    ENDPOINT = "endpoint"


class Step(msgspec.Struct, frozen=True):
    """One decision: what was chosen, by the name Envoy knows it by, and why."""

    kind: StepKind
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.why}"


Pairs = tuple[tuple[str, str], ...]
"""Headers, in order."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A member of a cluster. `is_usable`: Envoy would send to it now."""

    address: str
    port: int
    health: str
    is_usable: bool
    weight: int = 1


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """TLS to the endpoint. `pinned` are the only names accepted of it, empty: any. `secret` names what is presented.

    `is_pooled_by_identity` is False when connections that present different certificates can share a pool: then a
    request may leave with somebody else's.
    """

    server_name: str
    alpn: tuple[str, ...]
    pinned: tuple[str, ...]
    secret: str
    is_pooled_by_identity: bool
    minimum_version: str


class Members(msgspec.Struct, frozen=True, tag=True):
    """A cluster that balances over endpoints."""

    endpoints: tuple[Endpoint, ...]

    @property
    def usable(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in self.endpoints if endpoint.is_usable)


class Dialled(msgspec.Struct, frozen=True, tag=True):
    """A cluster that dials the connection's own destination, perhaps on another port."""

    address: str
    port: int


class Absent(msgspec.Struct, frozen=True, tag=True):
    """A cluster that the snapshot does not hold. `is_asked_for`: Envoy asks its server for it and waits."""

    is_asked_for: bool


Upstream = Members | Dialled | Absent


class Forward(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Sent to a cluster. `hop` is None without TLS. `netns` is the namespace the proxy dials from, "" its own.

    `mark` is the firewall mark of the proxy's socket, 0 without. `headers` are those of the request as sent, empty for
    a connection that is not HTTP. `failure` is what the client gets at once when nothing can be sent to now.
    """

    cluster: str
    upstream: Upstream
    hop: Hop | None = None
    netns: str = ""
    mark: int = 0
    headers: Pairs = ()
    failure: "Answer | Close | None" = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answered by the proxy itself. `flag` is Envoy's response flag, "" for an answer that a route or filter gives."""

    status: int
    headers: Pairs = ()
    body: str = ""
    flag: str = ""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class Close(msgspec.Struct, frozen=True, tag=True):
    """The connection is closed or reset."""

    why: str


class Split(msgspec.Struct, frozen=True, tag=True):
    """One of several clusters, by weight."""

    shares: tuple[tuple[int, Forward], ...]


class Http(msgspec.Struct, frozen=True, tag=True):
    """The connection is served as HTTP: each request has its own verdict."""

    stat_prefix: str


Outcome = Forward | Answer | Close | Split | Http


class Verdict(msgspec.Struct, frozen=True):
    """The outcome and every decision on the way to it."""

    steps: tuple[Step, ...]
    outcome: Outcome

    def name_of(self, kind: StepKind) -> str:
        """The name that the last step of a kind chose, "" if there was none."""
        return next((step.name for step in reversed(self.steps) if step.kind is kind), "")
