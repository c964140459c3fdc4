"""The bootstrap."""

import json

from aether.render.envoy import names
from aether.render.envoy.bootstrap import BootstrapSettings, render_bootstrap

SETTINGS = BootstrapSettings(node="n1", ads_socket="/run/ads.sock", admin_socket="/run/admin.sock")
BOOTSTRAP = render_bootstrap(SETTINGS)


def test_it_is_json() -> None:
    assert json.loads(json.dumps(BOOTSTRAP)) == BOOTSTRAP


def test_the_node_is_named_and_speaks_to_its_agent_over_a_unix_socket() -> None:
    assert BOOTSTRAP["node"]["id"] == "n1"
    ads = next(each for each in BOOTSTRAP["static_resources"]["clusters"] if each["name"] == names.ADS)
    endpoint = ads["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    assert endpoint["address"]["pipe"]["path"] == "/run/ads.sock"
    assert BOOTSTRAP["admin"]["address"]["pipe"]["path"] == "/run/admin.sock"


def test_the_stream_is_delta_says_its_node_once_and_reconnects_soon() -> None:
    config = BOOTSTRAP["dynamic_resources"]["ads_config"]
    back_off = config["grpc_services"][0]["envoy_grpc"]["retry_policy"]["retry_back_off"]
    assert config["api_type"] == "DELTA_GRPC"
    assert config["set_node_on_first_message_only"]
    assert back_off == {"base_interval": "0.100s", "max_interval": "1s"}


def test_clusters_and_listeners_are_waited_for_for_ever() -> None:
    for kind in ("cds_config", "lds_config"):
        assert BOOTSTRAP["dynamic_resources"][kind]["initial_fetch_timeout"] == "0s"


def test_no_cluster_of_the_mesh_is_static() -> None:
    assert [each["name"] for each in BOOTSTRAP["static_resources"]["clusters"]] == [names.ADS, names.NONE]
    assert "transport_socket" not in json.dumps(BOOTSTRAP)


def test_the_gauge_of_readiness_is_kept() -> None:
    patterns = BOOTSTRAP["stats_config"]["stats_matcher"]["inclusion_list"]["patterns"]
    gauge = names.probe_healthy_stat("0f1e")
    assert any(gauge.endswith(each["suffix"]) for each in patterns if "suffix" in each)


def test_connections_are_limited_to_what_descriptors_allow() -> None:
    (monitor,) = BOOTSTRAP["overload_manager"]["resource_monitors"]
    limit = int(monitor["typed_config"]["max_active_downstream_connections"])
    assert limit == SETTINGS.max_downstream_connections


def test_the_one_long_pattern_of_the_tables_is_allowed() -> None:
    (layer,) = BOOTSTRAP["layered_runtime"]["layers"]
    assert layer["static_layer"]["re2.max_program_size.error_level"] == 1000
