"""The delta ADS server of one node: gRPC on a unix socket around one `DeltaStream` per connected Envoy."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from aether.adapters.clock import Clock, SystemClock
from aether.model.facts import Rejection
from aether.render.envoy.resource import Resource

Snapshot = Mapping[str, Mapping[str, Resource]]
"""Type URL, then name. A mapping that was published is never changed afterwards: a change is a new one."""


class TypeStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one resource type since the server started; `held` is what the newest Envoy has acknowledged."""

    type_url: str
    messages: int = 0
    resources: int = 0
    removals: int = 0
    acked: int = 0
    nacked: int = 0
    held: int = 0


class AdsStatistics(msgspec.Struct, frozen=True, kw_only=True):
    streams: int
    streams_opened: int
    types: tuple[TypeStatistics, ...] = ()


class AdsServer:
    """`publish` replaces everything that is wanted; the streams carry the difference to Envoy.

    Nothing is answered before the first `publish`. `on_demand(name)` is called for a cluster that Envoy asked for and
    that is not published: publish it, then or later, and return True; False answers that it does not exist, which Envoy
    believes for good. `on_secret(name)` likewise for secrets, where False may be asked again. `on_known_names` is called
    on every new stream with the on-demand names that this Envoy remembers, before anything is answered.
    """

    def __init__(self, socket_path: Path, *, clock: Clock | None = None) -> None:
        self.on_demand: Callable[[str], bool] = _never
        self.on_secret: Callable[[str], bool] = _never
        self.on_known_names: Callable[[frozenset[str]], None] = _ignore
        self._socket_path = socket_path
        self._clock = clock or SystemClock()

    async def start(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    def publish(self, snapshot: Snapshot) -> None:
        """Make this what Envoy should have. Call it from the event loop; nothing is sent before it returns."""
        raise NotImplementedError

    async def wait_acked(self, type_url: str, names: frozenset[str], timeout_s: float) -> bool:
        """Wait until the newest Envoy has what was published last under these names (or no longer has it).

        False after `timeout_s`, or as soon as every name is settled and one of them was refused.
        """
        raise NotImplementedError

    def rejections(self) -> tuple[Rejection, ...]:
        """What connected Envoys refuse of the published resources."""
        raise NotImplementedError

    def statistics(self) -> AdsStatistics:
        raise NotImplementedError


def _never(name: str) -> bool:
    del name
    return False


def _ignore(names: frozenset[str]) -> None:
    del names
