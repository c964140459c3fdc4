"""Network filters."""

from typing import Any

import pytest
from envoy.config.listener.v3 import listener_components_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.common.set_filter_state.v3 import value_pb2
from envoy.extensions.filters.http.on_demand.v3 import on_demand_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import header_mutation_pb2
from tests.support.envoy_plans import unpack

from aether.render.envoy import names
from aether.render.envoy.accesslog import HTTP_FAILURES, LAST_HOP_FAILURES
from aether.render.envoy.filters import Carried, carry, http_inbound, http_proxy, tcp_forward, tcp_inbound

Manager = http_connection_manager_pb2.HttpConnectionManager


def manager_of(filter_: listener_components_pb2.Filter) -> Any:
    return unpack(Manager, filter_.typed_config)


def source(table: str = names.CAPTURE_TABLE) -> Any:
    return manager_of(http_proxy(stat_prefix="s", table=table, log=[]))


def inbound() -> Any:
    return manager_of(http_inbound(stat_prefix="s", routes=route_pb2.RouteConfiguration(), log=[]))


def test_what_reaches_upstream_connections_parts_their_pools() -> None:
    config = unpack(set_filter_state_pb2.Config, carry([Carried("key", "value", is_shared=True)]).typed_config)
    (value,) = config.on_new_connection
    assert value.factory_key == "envoy.hashable_string"
    assert value.shared_with_upstream == value_pb2.FilterStateValue.ONCE


def test_what_stays_at_the_connection_is_not_shared() -> None:
    config = unpack(set_filter_state_pb2.Config, carry([Carried("key", "value")]).typed_config)
    (value,) = config.on_new_connection
    assert value.factory_key == "envoy.string"
    assert value.shared_with_upstream == value_pb2.FilterStateValue.NONE


def test_the_cluster_of_a_raw_connection_is_made_by_its_own_factory() -> None:
    config = unpack(set_filter_state_pb2.Config, carry([Carried(names.TCP_CLUSTER_KEY, "c")]).typed_config)
    assert config.on_new_connection[0].factory_key == ""


def test_the_sources_table_is_waited_for_for_ever_and_its_clusters_for_a_second() -> None:
    manager = source()
    assert manager.rds.config_source.initial_fetch_timeout.ByteSize() == 0
    on_demand = unpack(on_demand_pb2.OnDemand, manager.http_filters[0].typed_config)
    assert on_demand.odcds.timeout.seconds == 1
    assert manager.http_filters[-1].name == "envoy.filters.http.router"


@pytest.mark.parametrize(
    ("table", "header"), [(names.CAPTURE_TABLE, names.CALLER_HEADER), (names.POD_TABLE, names.CLUSTER_HEADER)]
)
def test_what_chooses_a_cluster_is_overwritten_whatever_the_client_sent(table: str, header: str) -> None:
    (extension,) = source(table).early_header_mutation_extensions
    (mutation,) = unpack(header_mutation_pb2.HeaderMutation, extension.typed_config).mutations
    assert mutation.append.header.key == header
    assert mutation.append.append_action == mutation.append.OVERWRITE_IF_EXISTS_OR_ADD


def test_a_refusal_begins_with_the_name_and_every_failure_has_its_word() -> None:
    refusal, *failures = source().local_reply_config.mappers
    assert refusal.filter.status_code_filter.comparison.value.default_value == 421
    text = refusal.body_format_override.text_format_source.inline_string
    assert text.startswith("%CEL(")
    assert text.endswith(":253%%LOCAL_REPLY_BODY%")
    assert [mapper.headers_to_add[0].header.value for mapper in failures] == [f.word for f in HTTP_FAILURES]


def test_a_dialled_pod_refuses_by_what_the_metadata_of_its_cluster_says() -> None:
    refusal, *failures = source(names.POD_TABLE).local_reply_config.mappers
    flagged, told = refusal.filter.and_filter.filters
    assert list(flagged.response_flag_filter.flags) == ["UDO"]
    assert told.HasField("extension_filter")
    assert refusal.status_code.value == 421
    text = refusal.body_format_override.text_format_source.inline_string
    assert text.startswith("%CEL(")
    assert text.endswith(":253% %CLUSTER_METADATA(aether:ports)%")
    assert refusal.headers_to_add[0].header.value == "%CLUSTER_METADATA(aether:error)%"
    assert len(failures) == len(HTTP_FAILURES)


def test_the_destination_says_its_own_failures_too_and_refuses_nothing() -> None:
    words = [mapper.headers_to_add[0].header.value for mapper in inbound().local_reply_config.mappers]
    assert words == [failure.word for failure in LAST_HOP_FAILURES]
    assert "upstream-identity" not in words


def test_the_destination_tells_the_application_who_called_and_nobody_can_forge_it() -> None:
    manager = inbound()
    assert manager.forward_client_cert_details == Manager.SANITIZE_SET
    assert manager.set_current_client_cert_details.uri
    assert manager.codec_type == Manager.HTTP2


def test_web_sockets_pass_at_both_ends() -> None:
    for manager in (source(), inbound()):
        assert [upgrade.upgrade_type for upgrade in manager.upgrade_configs] == ["websocket"]
        assert manager.http2_protocol_options.allow_connect


def test_raw_tcp_asks_for_the_cluster_that_its_connection_carries() -> None:
    proxy = unpack(
        tcp_proxy_pb2.TcpProxy, tcp_forward(stat_prefix="s", cluster="c", log=[], is_on_demand=True).typed_config
    )
    assert proxy.on_demand.timeout.seconds == 1
    assert proxy.max_connect_attempts.value == 3


def test_a_pass_through_connects_once_as_its_caller_did() -> None:
    proxy = unpack(tcp_proxy_pb2.TcpProxy, tcp_forward(stat_prefix="s", cluster="c", log=[]).typed_config)
    assert not proxy.HasField("on_demand")
    assert not proxy.HasField("max_connect_attempts")


def test_an_application_is_dialled_only_after_the_peer_proved_itself() -> None:
    proxy = unpack(tcp_proxy_pb2.TcpProxy, tcp_inbound(stat_prefix="s", cluster="c", log=[]).typed_config)
    assert proxy.upstream_connect_mode == tcp_proxy_pb2.ON_DOWNSTREAM_TLS_HANDSHAKE
    assert proxy.HasField("max_early_data_bytes")
    assert proxy.max_early_data_bytes.value == 0


def test_an_idle_raw_connection_is_never_cut() -> None:
    for filter_ in (
        tcp_inbound(stat_prefix="s", cluster="c", log=[]),
        tcp_forward(stat_prefix="s", cluster="c", log=[]),
    ):
        proxy = unpack(tcp_proxy_pb2.TcpProxy, filter_.typed_config)
        assert proxy.HasField("idle_timeout")
        assert proxy.idle_timeout.ByteSize() == 0
