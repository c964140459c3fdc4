"""One delta ADS stream, seen from the server: what Envoy says goes in, what to tell it comes out.

Owns: when a message may leave and in which order, what a refusal costs, what is done when Envoy falls silent.
Leaves to others: bytes on the wire (`message`, the adapter), what should exist (the publisher).

`on_request`, `publish` and `on_time` take an event and return what the application has to know; `next_send` gives the
next message as long as there is one, so a slow Envoy gets the newest content and never a queue.

Rule: nothing is sent before the first `publish`, and a cluster that Envoy asked for by name is never removed: Envoy
asks once in its life, and would answer every later request with a timeout.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from aether.wire.xds.message import (
    DeltaRequest,
    Event,
    Frame,
    NamesKnown,
    OnDemandAsked,
    Rejected,
    SecretAsked,
    SendResponse,
    Stalled,
)
from aether.wire.xds.order import CLUSTER, ENDPOINT, RULES, SECRET, STEPS, Step, TypeRule
from aether.wire.xds.subscription import Sent, Subscription

STALL_S = 1.5
"""Silence about clusters that means one is stuck: more than a cluster may warm without its endpoints."""
STALL_STEPS_LIMIT = 5
"""The wait for each further attempt to heal doubles up to 2^5 times `STALL_S`: 48 s."""
IN_FLIGHT_LIMIT = 1_000
"""Unanswered messages of one type; beyond it, the newest content waits here instead of in Envoy."""
TEXT_LIMIT = 2_000
"""Characters of a refusal that are kept: some refusals hold a dump of the whole message."""
WITHHELD = "Envoy refuses this secret; its own words are withheld, because they can hold the key"

Wanted = Mapping[str, Mapping[str, Frame]]
"""Type URL, then name. Read-only: a change is a new mapping, and an unchanged type may be the same object."""

_NOTHING: Mapping[str, Frame] = {}


class Gate(msgspec.Struct):
    """The wait of one step: since when, and for which messages (those up to `barrier`)."""

    since: float | None = None
    barrier: int | None = None


class DeltaStream:
    """`substitute` makes the stand-in of a refused cluster that Envoy asked for by name (a tombstone)."""

    def __init__(self, *, substitute: Callable[[str], Frame]) -> None:
        self.node = ""
        self._substitute = substitute
        self._wanted: Wanted | None = None
        self._subscriptions = {url: Subscription(url, rule, substitute=substitute) for url, rule in RULES.items()}
        self._gates = [Gate() for _ in STEPS]
        self._serial = 0
        self._stalls = 0

    def on_request(self, request: DeltaRequest, *, now: float) -> tuple[Event, ...]:
        """Envoy said something. A request may answer a message and ask for more at once."""
        self.node = self.node or request.node
        sub = self._subscription(request.type_url)
        events: list[Event] = []
        if request.nonce:
            events += self._on_answer(sub, request, now)
        if not sub.is_asked:
            events += self._on_first(sub, request)
        else:
            sub.unsubscribe(request.unsubscribe)
            if request.subscribe:
                events += self._ask(sub, sub.subscribe(request.subscribe))
        return tuple(events)

    def publish(self, wanted: Wanted) -> tuple[Event, ...]:
        """Replace everything that is wanted."""
        before, self._wanted = self._wanted, wanted
        events: list[Event] = []
        for url, sub in self._subscriptions.items():
            mapping = wanted.get(url, _NOTHING)
            if before is None or before.get(url, _NOTHING) is not mapping:
                events += self._ask(sub, sub.compare(mapping))
                self._close_gates(url)
        return tuple(events)

    def deny(self, type_url: str, name: str) -> None:
        """The application has nothing under this name: say so, if Envoy can be told without losing something."""
        self._subscription(type_url).deny(name)

    def on_time(self, *, now: float) -> tuple[Event, ...]:
        """Heal a stall if it is time: harmless things first. Call at `next_deadline`, then `next_send`."""
        deadline = self._stall_deadline()
        if deadline is None or now < deadline:
            return ()
        clusters, endpoints = self._subscriptions[CLUSTER], self._subscriptions[ENDPOINT]
        names = tuple(dict.fromkeys(f.name for sent in clusters.in_flight.values() for f in sent.frames))
        for name in names:
            endpoints.urge(name)
        if self._stalls > 0:
            clusters.isolate(is_forced=self._stalls > 1)
        self._stalls += 1
        return (Stalled(names),)

    def next_deadline(self) -> float | None:
        """When to call `on_time` and `next_send` though nothing happened."""
        waits = [(gate.since, step.limit_s) for step, gate in zip(STEPS, self._gates, strict=True) if step.limit_s]
        gates = [since + limit_s for since, limit_s in waits if since is not None]
        stall = self._stall_deadline()
        return min(gates if stall is None else [*gates, stall], default=None)

    def next_send(self, *, now: float) -> SendResponse | None:
        """The next message to Envoy; None when there is nothing to say at the moment."""
        if self._wanted is None:
            return None
        subscriptions = self._subscriptions.values()
        for find in (self._next_cure, self._next_urgent, self._next_denial):
            for sub in subscriptions:
                if (sent := find(sub, now)) is not None:
                    return self._send(sub, sent)
        for index, step in enumerate(STEPS):
            sub = self._subscriptions[step.type_url]
            if (sent := self._next_of_step(index, step, now)) is not None:
                return self._send(sub, sent)
        for sub in subscriptions:
            if sub.owes_first_answer and not sub.pending:
                return self._send(sub, Sent(frames=(), removed=(), at=now))
        return None

    def is_settled(self, type_url: str, name: str) -> bool:
        """Whether Envoy has acknowledged what is wanted under this name, be it that there is nothing."""
        return self._wanted is not None and self._subscription(type_url).is_settled(name)

    def is_refused(self, type_url: str, name: str) -> bool:
        return name in self._subscription(type_url).refused

    def rejections(self) -> tuple[Rejected, ...]:
        """Every wanted resource that this Envoy refuses."""
        return tuple(
            Rejected(type_url=url, name=name, version=refusal.version, text=refusal.text)
            for url, sub in self._subscriptions.items()
            for name, refusal in sorted(sub.refused.items())
        )

    def held(self) -> Mapping[str, int]:
        """How many resources of each type Envoy has acknowledged."""
        return {url: len(sub.acked) for url, sub in self._subscriptions.items()}

    def _subscription(self, type_url: str) -> Subscription:
        if type_url not in self._subscriptions:
            self._subscriptions[type_url] = Subscription(type_url, TypeRule(), substitute=self._substitute)
        return self._subscriptions[type_url]

    def _on_first(self, sub: Subscription, request: DeltaRequest) -> list[Event]:
        sub.open(request)
        events: list[Event] = []
        if sub.type_url == CLUSTER and sub.names:
            events.append(NamesKnown(frozenset(sub.names)))
        if self._wanted is not None:
            events += self._ask(sub, sub.compare(self._wanted.get(sub.type_url, _NOTHING)))
        return events

    def _ask(self, sub: Subscription, names: Sequence[str]) -> list[Event]:
        """What becomes of names that Envoy asks for and that are not wanted."""
        if sub.type_url == CLUSTER:
            return [OnDemandAsked(name) for name in names]
        if sub.type_url == SECRET:
            return [SecretAsked(name) for name in names]
        if sub.rule.denies:
            for name in names:
                sub.deny(name)
        return []

    def _on_answer(self, sub: Subscription, request: DeltaRequest, now: float) -> list[Event]:
        sub.progress_at = now
        if sub.type_url == CLUSTER:
            self._stalls = 0
        sent = sub.in_flight.pop(int(request.nonce), None) if request.nonce.isdecimal() else None
        if sent is None:
            return []
        if request.error is None:
            sub.accept(sent)
            return []
        text = WITHHELD if sub.type_url == SECRET else request.error[:TEXT_LIMIT]
        return self._on_refusal(sub, sent, text)

    def _on_refusal(self, sub: Subscription, sent: Sent, text: str) -> list[Event]:
        if not sent.is_single:
            sub.take_back(sent, text)
            return []
        (frame,) = sent.frames
        if not sub.refuse(frame, text):
            return []
        return [Rejected(type_url=sub.type_url, name=frame.name, version=frame.version, text=text)]

    def _next_cure(self, sub: Subscription, now: float) -> Sent | None:
        if (cure := sub.next_cure()) is None:
            return None
        name, frame = cure
        return Sent(frames=(), removed=(name,), at=now) if frame is None else Sent(frames=(frame,), removed=(), at=now)

    def _next_urgent(self, sub: Subscription, now: float) -> Sent | None:
        while sub.urgent:
            name = next(iter(sub.urgent))
            del sub.urgent[name]
            if name in sub.wanted:
                return Sent(frames=(sub.wanted[name],), removed=(), at=now)
        return None

    def _next_denial(self, sub: Subscription, now: float) -> Sent | None:
        names = tuple(name for name in sub.denials if name not in sub.wanted)
        sub.denials.clear()
        return Sent(frames=(), removed=names, at=now) if names else None

    def _next_of_step(self, index: int, step: Step, now: float) -> Sent | None:
        sub, gate = self._subscriptions[step.type_url], self._gates[index]
        puts, removes = step.puts and bool(sub.pending), step.removes and bool(sub.removals)
        if not (puts or removes):
            gate.since = gate.barrier = None
            return None
        if len(sub.in_flight) >= IN_FLIGHT_LIMIT or not self._is_open(step, gate, now):
            return None
        frames = sub.next_put() if step.puts else ()
        removed = tuple(sub.removals) if step.removes else ()
        if removed and sub.is_alone(frames):
            frames = ()
        return Sent(frames=frames, removed=removed, at=now) if frames or removed else None

    def _is_open(self, step: Step, gate: Gate, now: float) -> bool:
        if gate.since is None:
            gate.since = now
        if now - gate.since >= step.limit_s:
            return True
        awaited = [self._subscriptions[url] for url in step.waits_for]
        if gate.barrier is None:
            if any(sub.pending or (not step.puts and not sub.is_asked) for sub in awaited):
                return False
            gate.barrier = self._serial
        return not any(next(iter(sub.in_flight), self._serial + 1) <= gate.barrier for sub in awaited)

    def _close_gates(self, type_url: str) -> None:
        """New content of a type waits for what is sent before it, not only for what its older content waited for."""
        for step, gate in zip(STEPS, self._gates, strict=True):
            if step.type_url == type_url:
                gate.barrier = None

    def _stall_deadline(self) -> float | None:
        quiet_since = self._subscriptions[CLUSTER].quiet_since()
        return None if quiet_since is None else quiet_since + STALL_S * 2.0 ** min(self._stalls, STALL_STEPS_LIMIT)

    def _send(self, sub: Subscription, sent: Sent) -> SendResponse:
        self._serial += 1
        sub.note_sent(self._serial, sent)
        if sub.type_url == CLUSTER:
            for frame in sent.frames:
                self._subscriptions[ENDPOINT].follow(frame.name)
        return SendResponse(type_url=sub.type_url, nonce=str(self._serial), resources=sent.frames, removed=sent.removed)
