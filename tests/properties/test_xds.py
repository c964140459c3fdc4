"""The delta stream brings any Envoy to what is wanted, whatever happens on the way."""

import functools

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from tests.support.model_envoy import ModelEnvoy, is_sound, wanted_frames

from aether.wire.xds.delta import DeltaStream
from aether.wire.xds.message import Event, Frame, NamesKnown, OnDemandAsked, Rejected, SecretAsked, SendResponse
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET

Contents = dict[str, dict[str, str]]

CLUSTERS = tuple(f"c{number}" for number in range(6))
TOMBSTONE = "static:0"
_ROUNDS = 2_000


class Publish(msgspec.Struct, frozen=True):
    contents: Contents
    forgets_observed: bool


class Demand(msgspec.Struct, frozen=True):
    name: str


class Exchange(msgspec.Struct, frozen=True):
    messages: int


class Disconnect(msgspec.Struct, frozen=True):
    pass


class Reconnect(msgspec.Struct, frozen=True):
    order: tuple[int, ...]


class RestartServer(msgspec.Struct, frozen=True):
    pass


class PassTime(msgspec.Struct, frozen=True):
    seconds: float


Action = Publish | Demand | Exchange | Disconnect | Reconnect | RestartServer | PassTime


class World:
    """One model Envoy, one stream at a time, and an application that answers on-demand names with tombstones."""

    def __init__(self) -> None:
        self.envoy = ModelEnvoy()
        self.machine: DeltaStream | None = None
        self.now = 0.0
        self.contents: Contents | None = None
        self.observed: set[str] = set()
        self.sent: list[SendResponse] = []
        self.has_been_away = False

    def act(self, action: Action) -> None:
        match action:
            case Publish():
                self.contents = action.contents
                self.observed = set() if action.forgets_observed else self.observed
                self.publish()
            case Demand(name=name):
                self.envoy.demand(name)
            case Exchange(messages=messages):
                for _ in range(messages):
                    self.exchange()
            case Disconnect():
                self.disconnect()
            case Reconnect(order=order):
                self.connect(order)
            case RestartServer():
                self.restart_server()
            case PassTime(seconds=seconds):
                self.pass_time(seconds)

    def restart_server(self) -> None:
        """Another one, which knows neither what is wanted nor what was asked."""
        self.disconnect()
        if self.machine is None:
            self.contents, self.observed = None, set()

    def publish(self) -> None:
        if self.machine is not None and self.contents is not None:
            self.tell(self.machine.publish(self.wanted()))

    def wanted(self) -> dict[str, dict[str, Frame]]:
        assert self.contents is not None
        clusters = {**dict.fromkeys(sorted(self.observed), TOMBSTONE), **self.contents[CLUSTER]}
        return wanted_frames({**self.contents, CLUSTER: clusters})

    def tell(self, events: tuple[Event, ...]) -> None:
        """What the application does: it remembers what is asked, and publishes once for all of it."""
        assert self.machine is not None
        before = len(self.observed)
        for event in events:
            match event:
                case NamesKnown(names=names):
                    self.observed |= names
                case OnDemandAsked(name=name):
                    self.observed.add(name)
                case SecretAsked(name=name):
                    self.machine.deny(SECRET, name)
                case Rejected(version=version):
                    assert not is_sound(version)
                case _:
                    pass
        if len(self.observed) != before:
            self.publish()

    def connect(self, order: tuple[int, ...] = ()) -> None:
        if self.machine is not None:
            return
        self.machine = DeltaStream(substitute=_tombstone)
        self.publish()
        self.envoy.connect(order)

    def disconnect(self) -> None:
        """Not with a phantom in Envoy: then it would not even subscribe to clusters again, and nothing can be said."""
        if self.machine is not None and not self.envoy.phantoms:
            self.machine = None
            self.envoy.disconnect()
            self.has_been_away = True

    def exchange(self) -> bool:
        """Everything that Envoy has to say, then one message to it. False if neither has anything."""
        if self.machine is None:
            return False
        requests = self.envoy.requests()
        for request in requests:
            self.tell(self.machine.on_request(request, now=self.now))
        if (response := self.machine.next_send(now=self.now)) is not None:
            self.sent.append(response)
            self.envoy.receive(response)
        return bool(requests) or response is not None

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        if seconds >= 1.0:
            self.envoy.pass_time()
        if self.machine is not None:
            self.tell(self.machine.on_time(now=self.now))

    def settle(self) -> None:
        self.contents = self.contents or {url: {} for url in (CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET)}
        self.connect()
        self.publish()
        assert self.machine is not None
        for _ in range(_ROUNDS):
            if self.exchange():
                continue
            deadline = self.machine.next_deadline()
            if deadline is None and not self.envoy.is_paused:
                return
            self.pass_time(max(1.0, (deadline or self.now) - self.now))
        raise AssertionError("they talk for ever")


def _tombstone(name: str) -> Frame:
    return Frame(name=name, version=TOMBSTONE, data=b"")


def _version(kinds: tuple[str, ...], faults: tuple[str, ...]) -> SearchStrategy[str]:
    return st.builds(
        lambda kind, revision, fault: f"{kind}:{revision}" + (f":{fault}" if fault else ""),
        st.sampled_from(kinds),
        st.integers(1, 2),
        st.sampled_from(("",) * 6 + faults),
    )


@st.composite
def contents(draw: st.DrawFn, *, faults: bool = True) -> Contents:
    """A snapshot: each EDS cluster nearly always has its assignment, each listener its table."""
    named = functools.partial(st.dictionaries, max_size=6)
    some_faults = ("bad",) if faults else ()
    clusters = draw(
        named(
            st.sampled_from(CLUSTERS),
            _version(
                ("static", "eds", "eds", "eds+s0", "eds+s1"), (*some_faults, "invalid", "phantom") if faults else ()
            ),
        )
    )
    listeners = draw(named(st.sampled_from(("l0", "l1", "l2")), _version(("t0", "t1"), some_faults)))
    with_endpoints = {name for name, version in clusters.items() if version.startswith("eds")}
    missing = draw(st.sets(st.sampled_from(CLUSTERS), max_size=1))
    small = _version(("x",), some_faults)
    return {
        CLUSTER: clusters,
        ENDPOINT: {name: draw(small) for name in sorted(with_endpoints - missing)},
        LISTENER: listeners,
        ROUTE: {table: draw(small) for table in ("t0", "t1")},
        SECRET: {"s0": draw(small)},
    }


def actions(*, faults: bool = True) -> SearchStrategy[list[Action]]:
    publish = st.builds(Publish, contents(faults=faults), st.booleans())
    return st.lists(
        st.one_of(
            publish,
            publish,
            st.builds(Demand, st.sampled_from((*CLUSTERS, "d0", "d1"))),
            st.builds(Exchange, st.integers(1, 12)),
            st.builds(Disconnect),
            st.builds(Reconnect, st.tuples(st.integers(0, 4), st.integers(0, 4))),
            st.builds(RestartServer),
            st.builds(PassTime, st.sampled_from((0.1, 1.0, 3.0))),
        ),
        max_size=25,
    )


def _run(script: list[Action]) -> World:
    world = World()
    world.connect()
    for action in script:
        world.act(action)
    world.settle()
    return world


@given(script=actions())
def test_envoy_ends_with_everything_that_is_wanted_and_sound(script: list[Action]) -> None:
    world = _run(script)
    wanted = world.wanted()
    for url in (CLUSTER, LISTENER):
        sound = {name: frame.version for name, frame in wanted[url].items() if is_sound(frame.version)}
        assert sound.items() <= world.envoy.held[url].items()
    for name, version in world.envoy.held[CLUSTER].items():
        frame = wanted[ENDPOINT].get(name)
        if version.startswith("eds") and frame is not None and is_sound(frame.version):
            assert world.envoy.held[ENDPOINT][name] == frame.version
    for name, version in world.envoy.held[LISTENER].items():
        table = wanted[ROUTE].get(version.partition(":")[0])
        if name in wanted[LISTENER] and table is not None and is_sound(table.version):
            assert world.envoy.held[ROUTE][table.name] == table.version


@given(script=actions())
def test_envoy_ends_with_nothing_that_is_not_wanted(script: list[Action]) -> None:
    world = _run(script)
    wanted = world.wanted()
    assert not world.envoy.warming
    assert not world.envoy.phantoms
    if not world.has_been_away:
        for url in (CLUSTER, LISTENER):
            assert world.envoy.held[url].keys() <= wanted[url].keys() | world.envoy.demanded.keys()


@given(script=actions())
def test_a_name_asked_for_on_demand_always_has_an_answer_in_the_end(script: list[Action]) -> None:
    world = _run(script)
    assert world.envoy.demanded.keys() <= world.envoy.held[CLUSTER].keys()


@given(script=actions())
def test_what_is_refused_is_reported_and_nothing_else(script: list[Action]) -> None:
    world = _run(script)
    wanted = world.wanted()
    assert world.machine is not None
    reported = {(one.type_url, one.name) for one in world.machine.rejections()}
    faulty = {
        (url, name) for url, named in wanted.items() for name, frame in named.items() if not is_sound(frame.version)
    }
    assert {key for key in faulty if key[0] in (CLUSTER, LISTENER)} <= reported <= faulty


@given(script=actions(faults=False))
def test_every_cluster_is_followed_by_its_assignment(script: list[Action]) -> None:
    """Else a changed one warms until its timeout, and no on-demand name is answered meanwhile."""
    world = World()
    world.connect()
    world.act(Publish({CLUSTER: {"c0": "eds:1"}, ENDPOINT: {"c0": "x:1"}, LISTENER: {}, ROUTE: {}, SECRET: {}}, False))
    world.settle()
    for action in script:
        was_warming = "c0" in world.envoy.warming
        world.act(action)
        if isinstance(action, Publish) and not was_warming:
            world.act(Reconnect((0, 0)))
            while world.exchange():
                pass
            assert "c0" not in world.envoy.warming or "c0" not in action.contents[ENDPOINT]


@given(script=actions(faults=False), order=st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_after_a_reconnect_with_equal_content_nothing_is_sent(script: list[Action], order: tuple[int, ...]) -> None:
    world = _run(script)
    world.disconnect()
    world.sent.clear()
    world.connect(order)
    world.settle()
    assert sum(len(response.resources) for response in world.sent) == 0
    assert not [response for response in world.sent if response.removed and response.type_url in (CLUSTER, LISTENER)]


@given(script=actions())
def test_content_that_was_refused_is_not_sent_again(script: list[Action]) -> None:
    world = _run(script)
    world.sent.clear()
    for _ in range(3):
        world.publish()
        world.settle()
    assert not world.sent
