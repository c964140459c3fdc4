"""Envoy as a delta xDS client, modelled from what the real one was measured to do; no sockets, no time of its own.

A resource's content is its version, `<kind>:<revision>[:<fault>]`:

- a cluster's kind is `static`, `eds` or `eds+<secret>`; its fault `bad` (refused, named), `invalid` (spoils its
  message, not named) or `phantom` (refused, named, and stuck in the warming map);
- a listener's kind is its table, its fault `bad`; an assignment's, a table's and a secret's fault is `bad`.

Rules that the model holds the server to are assertions here: no name twice in a message, one type per message, and no
removal of a cluster that it knows was asked for on demand.
"""

import re
from collections.abc import Iterable, Mapping

from aether.wire.xds.message import DeltaRequest, Frame, SendResponse
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET

_TYPES = (CLUSTER, LISTENER, ENDPOINT, ROUTE, SECRET)


class ModelEnvoy:
    """`receive` takes responses, `requests` gives what Envoy says. `held` is what it has by type and name."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, str]] = {url: {} for url in _TYPES}
        self.demanded: dict[str, None] = {}
        self.warming: dict[str, str] = {}
        self.phantoms: set[str] = set()
        self.is_connected = False
        self._recorded: dict[str, dict[str, str]] = {url: {} for url in _TYPES}
        self._names: dict[str, dict[str, None]] = {url: {} for url in (ENDPOINT, ROUTE, SECRET)}
        self._absent: set[tuple[str, str]] = set()
        self._is_stuck = False
        self._heard: set[str] = set()
        self._has_clusters = False
        self._has_asked_listeners = False
        self._said: list[DeltaRequest] = []
        self._held_back: list[DeltaRequest] = []

    @property
    def is_paused(self) -> bool:
        """Nothing is said of clusters while one is warming."""
        return bool(self.warming) or self._is_stuck

    def connect(self, order: Iterable[int] = ()) -> None:
        """Open a stream. `order` shuffles the first requests: their order is not defined."""
        assert not self.is_connected
        self.is_connected = True
        opening = [self._open_clusters()]
        if self._has_asked_listeners:
            opening.append(DeltaRequest(type_url=LISTENER, initial_versions=dict(self._recorded[LISTENER])))
        for url, names in self._names.items():
            if names:
                versions = {name: v for name, v in self._recorded[url].items() if name in names}
                opening.append(DeltaRequest(type_url=url, subscribe=tuple(names), initial_versions=versions))
        for position in order:
            opening.append(opening.pop(position % len(opening)))
        for request in opening:
            self._say(request)

    def disconnect(self) -> None:
        self.is_connected = False
        self._said.clear()
        self._held_back.clear()
        self._heard.clear()

    def demand(self, name: str) -> None:
        """A request needs a cluster; Envoy asks only for one that it lacks, and once in its life."""
        if name in self.held[CLUSTER] or name in self.demanded:
            return
        self.demanded[name] = None
        if self.is_connected:
            self._say(DeltaRequest(type_url=CLUSTER, subscribe=(name,)))

    def pass_time(self) -> None:
        """The fetch timeouts of everything that is warming end."""
        for name in tuple(self.warming):
            self._warm(name)
        self._resume()

    def requests(self) -> list[DeltaRequest]:
        said, self._said = self._said, []
        self._heard |= {name for one in said if one.type_url == CLUSTER for name in one.subscribe}
        return said

    def receive(self, response: SendResponse) -> None:
        names = [frame.name for frame in response.resources] + list(response.removed)
        assert len(names) == len(set(names)), f"one name twice in {response}"
        handlers = {CLUSTER: self._on_clusters, LISTENER: self._on_listeners}
        error = handlers.get(response.type_url, self._on_named)(response)
        if not error:
            self._record(response)
        self._say(DeltaRequest(type_url=response.type_url, nonce=response.nonce, error=error or None))
        if response.type_url == CLUSTER:
            self._has_clusters = True
        self._resume()

    def _open_clusters(self) -> DeltaRequest:
        subscribe = ("*", *self.demanded) if self.demanded else ()
        return DeltaRequest(
            type_url=CLUSTER, node="model", subscribe=subscribe, initial_versions=dict(self._recorded[CLUSTER])
        )

    def _on_clusters(self, response: SendResponse) -> str:
        faults = {frame.name: _fault(frame) for frame in response.resources}
        if "invalid" in faults.values():
            return "Invalid duration"
        for name in response.removed:
            assert name not in self._heard, f"{name} was asked for on demand and is removed"
            self._drop_cluster(name)
        has_changed = bool(response.removed)
        for frame in response.resources:
            self.phantoms.discard(frame.name)
            if faults[frame.name] == "phantom":
                self.phantoms.add(frame.name)
            elif not faults[frame.name]:
                has_changed |= self._take_cluster(frame)
        self._is_stuck = bool(self.phantoms) and (self._is_stuck or has_changed)
        refused = sorted(name for name, fault in faults.items() if fault)
        return f"Error adding/updating cluster(s) {_reasons(refused)}" if refused else ""

    def _take_cluster(self, frame: Frame) -> bool:
        """True if it is a change. A changed cluster does not ask for its assignment again."""
        if self.warming.get(frame.name, self.held[CLUSTER].get(frame.name)) == frame.version:
            return False
        if not frame.version.startswith("eds"):
            self.warming.pop(frame.name, None)
            self.held[CLUSTER][frame.name] = frame.version
            self._unsubscribe(ENDPOINT, frame.name)
            return True
        self.warming[frame.name] = frame.version
        self._absent.discard((ENDPOINT, frame.name))
        self._subscribe(ENDPOINT, frame.name)
        return True

    def _drop_cluster(self, name: str) -> None:
        self.phantoms.discard(name)
        self.warming.pop(name, None)
        self.held[CLUSTER].pop(name, None)
        self._unsubscribe(ENDPOINT, name)

    def _on_listeners(self, response: SendResponse) -> str:
        for name in response.removed:
            self.held[LISTENER].pop(name, None)
        refused = [frame.name for frame in response.resources if _fault(frame)]
        for frame in response.resources:
            if frame.name not in refused:
                self.held[LISTENER][frame.name] = frame.version
                self._subscribe(ROUTE, _kind(frame.version))
        return f"Error adding/updating listener(s) {_reasons(refused)}" if refused else ""

    def _on_named(self, response: SendResponse) -> str:
        """Assignments, tables and secrets. Removing one that is in use is acknowledged and changes nothing."""
        url = response.type_url
        for name in response.removed:
            if name not in self.held[url]:
                self._absent.add((url, name))
            self._advance(url, name)
        for frame in response.resources:
            assert len(response.resources) == 1, f"more than one resource: {response}"
            if frame.name not in self._names[url]:
                continue
            if _fault(frame):
                return "malformed"
            self.held[url][frame.name] = frame.version
            self._absent.discard((url, frame.name))
            self._advance(url, frame.name, is_fresh=True)
        return ""

    def _advance(self, url: str, name: str, *, is_fresh: bool = False) -> None:
        """Warming clusters go on: assignment, then secret, then they serve."""
        for cluster, version in tuple(self.warming.items()):
            if url == ENDPOINT and cluster == name and (is_fresh or (url, name) in self._absent):
                secret = _secret(version)
                if secret and secret not in self.held[SECRET] and (SECRET, secret) not in self._absent:
                    self._subscribe(SECRET, secret)
                else:
                    self._warm(cluster)
            elif url == SECRET and _secret(version) == name:
                self._warm(cluster)

    def _warm(self, name: str) -> None:
        self.held[CLUSTER][name] = self.warming.pop(name)

    def _record(self, response: SendResponse) -> None:
        recorded = self._recorded[response.type_url]
        for frame in response.resources:
            recorded[frame.name] = frame.version
        for name in response.removed:
            recorded.pop(name, None)

    def _subscribe(self, url: str, name: str) -> None:
        if name in self._names[url]:
            return
        self._names[url][name] = None
        if self.is_connected:
            self._say(DeltaRequest(type_url=url, subscribe=(name,)))

    def _unsubscribe(self, url: str, name: str) -> None:
        if name not in self._names[url]:
            return
        del self._names[url][name]
        self.held[url].pop(name, None)
        self._recorded[url].pop(name, None)
        if self.is_connected:
            self._say(DeltaRequest(type_url=url, unsubscribe=(name,)))

    def _say(self, request: DeltaRequest) -> None:
        if request.type_url == CLUSTER and self.is_paused:
            self._held_back.append(request)
        else:
            self._said.append(request)

    def _resume(self) -> None:
        if self.is_paused:
            return
        self._said += self._held_back
        self._held_back = []
        if self._has_clusters and not self._has_asked_listeners and self.is_connected:
            self._has_asked_listeners = True
            self._say(DeltaRequest(type_url=LISTENER))


def _reasons(names: Iterable[str]) -> str:
    return ", ".join(f"{name}: refused" for name in names)


def wanted_frames(contents: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Frame]]:
    """Contents by type and name, as frames."""
    return {
        url: {name: Frame(name=name, version=version, data=b"") for name, version in named.items()}
        for url, named in contents.items()
    }


def is_sound(version: str) -> bool:
    return version.count(":") == 1


def _fault(frame: Frame) -> str:
    return frame.version.split(":")[2] if not is_sound(frame.version) else ""


def _kind(version: str) -> str:
    return version.partition(":")[0]


def _secret(version: str) -> str:
    match = re.match(r"eds\+(\w+):", version)
    return match.group(1) if match else ""
