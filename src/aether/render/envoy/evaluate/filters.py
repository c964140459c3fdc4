"""Network filters: what a connection is told to carry, and who takes its bytes.

Owns: `set_filter_state`, `tcp_proxy` and the place of the HTTP connection manager among them.
"""

import msgspec
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2

from aether.render.envoy.evaluate.formatter import Format, read_format_source
from aether.render.envoy.evaluate.manager import Manager, read_manager
from aether.render.envoy.evaluate.request import Scene, StateObject
from aether.render.envoy.evaluate.strict import Proto, require, shape, unpack

_FILTER = shape("name typed_config")
_SET_STATE = shape("on_new_connection")
_VALUE = shape("object_key factory_key format_string shared_with_upstream skip_if_empty")
_TCP_PROXY = shape(
    "cluster weighted_clusters on_demand stat_prefix",
    "idle_timeout downstream_idle_timeout upstream_idle_timeout access_log access_log_options max_connect_attempts "
    "backoff_options max_downstream_connection_duration upstream_connect_mode max_early_data_bytes hash_policy",
)
_ON_DEMAND = shape("odcds_config", "timeout")
_WEIGHTED = shape("clusters")
_WEIGHT = shape("name weight")

_FACTORIES = {"envoy.string", "envoy.hashable_string", "envoy.network.ip", "envoy.tcp_proxy.cluster"}
TCP_CLUSTER_KEY = "envoy.tcp_proxy.cluster"
"""Filter state that names the cluster of a tcp_proxy, over the one in its configuration."""


class StateEntry(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    factory: str
    text: Format
    is_shared: bool
    skips_empty: bool


class SetState(msgspec.Struct, frozen=True, tag=True):
    """Writes filter state when the connection arrives. Each entry sees what the ones before it wrote."""

    entries: tuple[StateEntry, ...]

    def apply(self, scene: Scene) -> Scene:
        for entry in self.entries:
            text = entry.text.text(scene)
            if text or not entry.skips_empty:
                scene = scene.with_state([(entry.key, StateObject(entry.factory, text, entry.is_shared))])
        return scene

    def written(self, scene: Scene) -> str:
        """What the filter wrote, from the scene after it."""
        keys = [entry.key for entry in self.entries if entry.key in scene.state]
        return ", ".join(f"{key}={scene.state[key].text}" for key in keys)


class TcpProxy(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Takes the bytes to a cluster. `clusters` are (weight, name); one without choice has one."""

    stat_prefix: str
    clusters: tuple[tuple[int, str], ...]
    asks_for_clusters: bool

    def choose(self, scene: Scene) -> tuple[tuple[tuple[int, str], ...], str]:
        """The clusters, with weights, and why."""
        override = scene.state.get(TCP_CLUSTER_KEY)
        if override is not None and override.factory == TCP_CLUSTER_KEY:
            return ((1, override.text),), f"filter state {TCP_CLUSTER_KEY} names it"
        return self.clusters, "the filter names it"


NetworkFilter = SetState | TcpProxy | Manager


def read_network_filter(message: Proto) -> NetworkFilter:
    _FILTER.check(message)
    classes = [
        set_filter_state_pb2.Config,
        tcp_proxy_pb2.TcpProxy,
        http_connection_manager_pb2.HttpConnectionManager,
    ]
    config = unpack(message.typed_config, classes, where=f"the network filter {message.name}")
    if isinstance(config, set_filter_state_pb2.Config):
        _SET_STATE.check(config)
        return SetState(tuple(_read_entry(one) for one in config.on_new_connection))
    if isinstance(config, tcp_proxy_pb2.TcpProxy):
        return _read_tcp_proxy(config)
    return read_manager(config)


def _read_entry(message: Proto) -> StateEntry:
    _VALUE.check(message)
    factory = message.factory_key or message.object_key
    require(factory in _FACTORIES, f"filter state made by {factory}")
    require(message.WhichOneof("key") == "object_key", "filter state without a key")
    return StateEntry(
        key=message.object_key,
        factory=factory,
        text=read_format_source(message.format_string),
        is_shared=message.shared_with_upstream != message.NONE,
        skips_empty=message.skip_if_empty,
    )


def _read_tcp_proxy(message: Proto) -> TcpProxy:
    _TCP_PROXY.check(message)
    if message.HasField("on_demand"):
        _ON_DEMAND.check(message.on_demand)
    if message.WhichOneof("cluster_specifier") == "weighted_clusters":
        _WEIGHTED.check(message.weighted_clusters)
        for one in message.weighted_clusters.clusters:
            _WEIGHT.check(one)
        clusters = tuple((one.weight, one.name) for one in message.weighted_clusters.clusters)
    else:
        clusters = ((1, message.cluster),)
    return TcpProxy(
        stat_prefix=message.stat_prefix,
        clusters=clusters,
        asks_for_clusters=message.HasField("on_demand") and message.on_demand.HasField("odcds_config"),
    )
