"""The evaluator: Envoy's stages in their order, with the way it got there."""

import pytest
from tests.support.envoy_yaml import snapshot_of

from aether.render.envoy.evaluate import Connection, Evaluator, Request, Spoken
from aether.render.envoy.evaluate.request import Headers
from aether.render.envoy.evaluate.verdict import (
    Absent,
    Answer,
    Close,
    Dialled,
    Endpoint,
    Forward,
    Http,
    Members,
    Split,
    StepKind,
)

SNAPSHOT = """
listeners:
- name: capture
  address: {socket_address: {address: 0.0.0.0, port_value: 18001, network_namespace_filepath: /a}}
  listener_filters:
  - {name: t, typed_config: {'@type': E/filters.listener.tls_inspector.v3.TlsInspector}}
  - {name: h, typed_config: {'@type': E/filters.listener.http_inspector.v3.HttpInspector}}
  filter_chain_matcher:
    matcher_tree:
      input: {name: p, typed_config: {'@type': E/matching.common_inputs.network.v3.ApplicationProtocolInput}}
      exact_match_map:
        map:
          "'http/1.1'": &http {action: {name: c, typed_config: {'@type': G/google.protobuf.StringValue, value: http}}}
          "'http/1.0'": *http
  filter_chains:
  - name: http
    filters:
    - &state
      name: s
      typed_config:
        '@type': E/filters.network.set_filter_state.v3.Config
        on_new_connection:
        - {object_key: port, factory_key: envoy.string,
           format_string: {text_format_source: {inline_string: '%DOWNSTREAM_LOCAL_PORT%'}}}
    - &http_manager
      name: m
      typed_config: &manager
        '@type': E/filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: web
        rds: {route_config_name: table}
        http_filters:
        - {name: demand, typed_config: {'@type': E/filters.http.on_demand.v3.OnDemand, odcds: {source: {ads: {}}}}}
        - {name: router, typed_config: {'@type': E/filters.http.router.v3.Router}}
        local_reply_config:
          mappers:
          - filter: {response_flag_filter: {flags: [UH, NC, UDO]}}
            headers_to_add: [{header: {key: x-why, value: none}}]
  default_filter_chain:
    name: through
    filters:
    - name: t
      typed_config: {'@type': E/filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: through, cluster: dialled}
- name: weighted
  address: {socket_address: {address: 0.0.0.0, port_value: 18002, network_namespace_filepath: /a}}
  filter_chains:
  - name: w
    filters:
    - name: t
      typed_config:
        '@type': E/filters.network.tcp_proxy.v3.TcpProxy
        stat_prefix: w
        weighted_clusters: {clusters: [{name: empty, weight: 1}, {name: hop, weight: 3}]}
- name: proxy
  address: {socket_address: {address: 127.0.0.1, port_value: 18081, network_namespace_filepath: /a}}
  filter_chains: [{name: proxy, filters: [*http_manager]}]
- name: nothing
  address: {socket_address: {address: 0.0.0.0, port_value: 1, network_namespace_filepath: /a}}
  filter_chains: [{name: empty, filters: [*state]}]
- name: no-table
  address: {socket_address: {address: 0.0.0.0, port_value: 2, network_namespace_filepath: /a}}
  filter_chains:
  - name: n
    filters: [{name: m, typed_config: {<<: *manager, rds: {route_config_name: missing}}}]
- name: inbound
  address: {socket_address: {address: 0.0.0.0, port_value: 18008, network_namespace_filepath: /b}}
  listener_filters:
  - {name: t, typed_config: {'@type': E/filters.listener.tls_inspector.v3.TlsInspector}}
  filter_chains:
  - name: in_8080
    filter_chain_match: {server_names: ['8080']}
    transport_socket: &tls
      name: t
      typed_config:
        '@type': E/transport_sockets.tls.v3.DownstreamTlsContext
        require_client_certificate: true
        common_tls_context: {tls_certificate_sds_secret_configs: [{name: in/b}]}
    filters:
    - name: m
      typed_config:
        '@type': E/filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: in
        route_config:
          name: inline
          virtual_hosts:
          - name: live
            domains: [live]
            routes: [{match: {prefix: /}, direct_response: {status: 404}}]
          - {name: app, domains: ['*'], routes: [{name: app, match: {prefix: /}, route: {cluster: app}}]}
        http_filters:
        - name: health
          typed_config:
            '@type': E/filters.http.health_check.v3.HealthCheck
            pass_through_mode: false
            headers: [{name: ':path', string_match: {exact: /live}}]
        - {name: router, typed_config: {'@type': E/filters.http.router.v3.Router}}
  - name: in_9000
    filter_chain_match: {server_names: ['9000']}
    transport_socket: *tls
    filters:
    - name: t
      typed_config: {'@type': E/filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: in, cluster: app}
routes:
- name: table
  ignore_port_in_host_matching: true
  cluster_specifier_plugins:
  - extension:
      name: mesh
      typed_config: {'@type': E/router.cluster_specifiers.lua.v3.LuaConfig, source_code: {inline_string: lua}}
  virtual_hosts:
  - name: cart
    domains: [cart]
    routes:
    - {name: hop, match: {path: /hop}, route: {cluster: hop}}
    - {name: empty, match: {path: /empty}, route: {cluster: empty}}
    - {name: drop, match: {path: /drop}, route: {cluster: drop}}
    - {name: cold, match: {path: /cold}, route: {cluster: cold}}
    - name: quiet
      match: {path: /quiet}
      route: {cluster: cold}
      typed_per_filter_config: {demand: {'@type': E/filters.http.on_demand.v3.PerRouteConfig}}
    - {name: lua, match: {path: /lua}, route: {cluster_specifier_plugin: mesh}}
    - name: refuse
      match: {prefix: /no}
      direct_response: {status: 421, body: {inline_string: nay}}
      response_headers_to_add: [{header: {key: x-why, value: port}}]
clusters:
- {name: dialled, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED,
   upstream_bind_config: {source_address: {address: 0.0.0.0, network_namespace_filepath: /a}}}
- name: hop
  type: EDS
  common_lb_config: {healthy_panic_threshold: {value: 0}}
  transport_socket:
    name: t
    typed_config:
      '@type': E/transport_sockets.tls.v3.UpstreamTlsContext
      sni: '8080'
      common_tls_context:
        tls_certificate_sds_secret_configs: [{name: out/a}]
        validation_context:
          match_typed_subject_alt_names: [{san_type: URI, matcher: {exact: 'spiffe://td/b'}}]
- {name: empty, type: STATIC}
- {name: drop, type: EDS}
- name: app
  type: STATIC
  load_assignment:
    cluster_name: app
    endpoints:
    - lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 8080}}}}]
endpoints:
- cluster_name: hop
  endpoints:
  - lb_endpoints:
    - {health_status: HEALTHY, endpoint: {address: {socket_address: {address: 10.244.1.1, port_value: 18008}}}}
    - {health_status: DRAINING, endpoint: {address: {socket_address: {address: 10.244.1.2, port_value: 18008}}}}
- cluster_name: drop
  policy: {drop_overloads: [{category: x, drop_percentage: {numerator: 100}}]}
""".replace("E/", "type.googleapis.com/envoy.extensions.").replace("G/", "type.googleapis.com/")


def program(source: str, headers: Headers) -> str:
    return f"{source}|{headers[':authority'][0]}"


EVALUATOR = Evaluator(snapshot_of(SNAPSHOT), contracts={"mesh": program})


def dial(spoken: Spoken = Spoken.HTTP11, *, listener: int = 18001, netns: str = "/a") -> Connection:
    return Connection(netns=netns, listener_port=listener, address="10.96.0.5", port=8080, spoken=spoken)


def get(path: str, authority: str = "cart:8080") -> Request:
    return Request(authority=authority, path=path)


def test_a_request_is_followed_to_the_endpoint() -> None:
    verdict = EVALUATOR.evaluate_request(dial(), get("/hop"))
    assert [(step.kind, step.name) for step in verdict.steps] == [
        (StepKind.LISTENER, "capture"),
        (StepKind.CHAIN, "http"),
        (StepKind.NETWORK_FILTER, "set_filter_state"),
        (StepKind.NETWORK_FILTER, "http_connection_manager"),
        (StepKind.TABLE, "table"),
        (StepKind.VIRTUAL_HOST, "cart"),
        (StepKind.ROUTE, "hop"),
        (StepKind.HTTP_FILTER, "demand"),
        (StepKind.HTTP_FILTER, "router"),
        (StepKind.CHOICE, "cluster"),
        (StepKind.CLUSTER, "hop"),
        (StepKind.ENDPOINT, "10.244.1.1:18008"),
    ]
    assert str(verdict.steps[-2]) == "cluster hop: TLS as out/a to spiffe://td/b, server name '8080'"
    assert verdict.steps[-1].why == "1 of 2 endpoints can be used"
    assert (verdict.name_of(StepKind.ROUTE), verdict.name_of(StepKind.ANSWER)) == ("hop", "")
    assert isinstance(verdict.outcome, Forward)
    assert verdict.outcome.failure is None


def test_a_route_answers_by_itself() -> None:
    verdict = EVALUATOR.evaluate_request(dial(), get("/no/more"))
    assert verdict.outcome == Answer(status=421, headers=(("x-why", "port"),), body="nay")
    assert verdict.name_of(StepKind.ANSWER) == "421"


@pytest.mark.parametrize(("path", "flag"), [("/empty", "UH"), ("/drop", "UDO"), ("/quiet", "NC")])
def test_what_cannot_be_sent_is_answered_as_the_manager_says(path: str, flag: str) -> None:
    outcome = EVALUATOR.evaluate_request(dial(), get(path)).outcome
    assert isinstance(outcome, Forward)
    assert outcome.failure == Answer(status=503, headers=(("x-why", "none"),), flag=flag)


def test_an_absent_cluster_is_asked_for_on_demand() -> None:
    outcome = EVALUATOR.evaluate_request(dial(), get("/cold")).outcome
    assert isinstance(outcome, Forward)
    assert (outcome.cluster, outcome.upstream, outcome.failure) == ("cold", Absent(is_asked_for=True), None)


def test_a_cluster_that_came_meanwhile_is_found() -> None:
    snapshot = {kind: dict(resources) for kind, resources in snapshot_of(SNAPSHOT).items()}
    evaluator = Evaluator(snapshot)
    assert evaluator.cluster("cold") is None
    for kind, resources in snapshot_of("clusters: [{name: cold, type: STATIC}]").items():
        snapshot[kind].update(resources)
    assert evaluator.cluster("cold") is not None


def test_a_program_names_the_cluster() -> None:
    outcome = EVALUATOR.evaluate_request(dial(), get("/lua")).outcome
    assert isinstance(outcome, Forward)
    assert outcome.cluster == "lua|cart:8080"


@pytest.mark.parametrize(
    ("request_", "steps"),
    [
        (get("/other"), ("cart", "none")),
        (get("/hop", "nobody"), ("none", "")),
        (Request(authority="cart", method="CONNECT"), ("cart", "none")),
    ],
)
def test_without_a_route_the_answer_is_404(request_: Request, steps: tuple[str, str]) -> None:
    verdict = EVALUATOR.evaluate_request(dial(), request_)
    assert verdict.outcome == Answer(status=404, flag="NR")
    assert (verdict.name_of(StepKind.VIRTUAL_HOST), verdict.name_of(StepKind.ROUTE)) == steps


def test_without_a_host_the_answer_is_400() -> None:
    assert EVALUATOR.evaluate_request(dial(), get("/hop", "")).outcome == Answer(status=400)


def test_http_1_0_is_refused_unless_it_is_allowed() -> None:
    assert EVALUATOR.evaluate_request(dial(Spoken.HTTP10), get("/hop")).outcome == Answer(status=426)


def test_http_1_0_without_a_host_gets_the_default_one() -> None:
    allowed = SNAPSHOT.replace(
        "stat_prefix: web", "stat_prefix: web\n        http_protocol_options: {accept_http_10: true, DEFAULT}"
    )
    named = Evaluator(snapshot_of(allowed.replace("DEFAULT", "default_host_for_http_10: cart")))
    unnamed = Evaluator(snapshot_of(allowed.replace(", DEFAULT", "")))
    assert isinstance(named.evaluate_request(dial(Spoken.HTTP10), get("/hop", "")).outcome, Forward)
    assert unnamed.evaluate_request(dial(Spoken.HTTP10), get("/hop", "")).outcome == Answer(status=400)


def test_a_table_that_was_never_sent_answers_404() -> None:
    verdict = EVALUATOR.evaluate_request(dial(listener=2), get("/hop"))
    assert verdict.outcome == Answer(status=404, flag="NR")
    assert verdict.steps[-2].why == "the table was never sent"


def test_a_connection_served_as_http_has_no_verdict_of_its_own() -> None:
    assert EVALUATOR.evaluate_connection(dial()).outcome == Http("web")


@pytest.mark.parametrize("spoken", [Spoken.OTHER, Spoken.TLS, Spoken.H2C])
def test_bytes_that_no_chain_wants_pass_through(spoken: Spoken) -> None:
    verdict = EVALUATOR.evaluate_request(dial(spoken), get("/hop"))
    assert verdict.outcome == Forward(cluster="dialled", upstream=Dialled("10.96.0.5", 8080), netns="/a")
    assert verdict.steps[-1].name == "10.96.0.5:8080"


def test_a_silent_client_is_waited_for_only_if_the_listener_goes_on() -> None:
    assert EVALUATOR.evaluate_connection(dial(Spoken.SILENT)).outcome == Close(
        "the listener closes connections whose client says nothing"
    )
    patient = SNAPSHOT.replace("- name: capture", "- name: capture\n  continue_on_listener_filters_timeout: true")
    outcome = Evaluator(snapshot_of(patient)).evaluate_connection(dial(Spoken.SILENT)).outcome
    assert isinstance(outcome, Forward)
    assert EVALUATOR.evaluate_connection(dial(Spoken.SILENT, listener=18002)).name_of(StepKind.CHAIN) == "w"


def test_bytes_that_are_not_http_are_400_where_only_http_is_spoken() -> None:
    connection = Connection(netns="/a", listener_port=18081, address="127.0.0.1", port=18081)
    assert EVALUATOR.evaluate_connection(connection).outcome == Answer(status=400, flag="DPE")


def test_weighted_clusters_are_all_followed() -> None:
    verdict = EVALUATOR.evaluate_connection(dial(listener=18002))
    assert isinstance(verdict.outcome, Split)
    assert [(weight, share.cluster) for weight, share in verdict.outcome.shares] == [(1, "empty"), (3, "hop")]
    assert verdict.outcome.shares[0][1].failure == Close("the cluster has no endpoint to send to")


@pytest.mark.parametrize(
    ("connection", "why"),
    [
        (dial(netns="/c"), "nothing listens on port 18001 of the namespace"),
        (dial(listener=1), "the filter chain has no filter that ends it"),
        (dial(listener=18008, netns="/b"), "no filter chain takes the connection"),
    ],
)
def test_what_nothing_takes_is_closed(connection: Connection, why: str) -> None:
    assert EVALUATOR.evaluate_connection(connection).outcome == Close(why)


def test_a_chain_with_tls_takes_only_tls() -> None:
    snapshot = SNAPSHOT.replace("filter_chain_match: {server_names: ['8080']}", "filter_chain_match: {}")
    outcome = Evaluator(snapshot_of(snapshot)).evaluate_connection(dial(listener=18008, netns="/b")).outcome
    assert outcome == Close("the filter chain speaks TLS, the client does not")


ENDPOINT = Endpoint(address="10.244.1.1", port=18008, health="HEALTHY", is_usable=True)


def test_a_request_is_followed_into_the_destination() -> None:
    forward = EVALUATOR.evaluate_request(dial(), get("/hop")).outcome
    assert isinstance(forward, Forward)
    arrival = EVALUATOR.evaluate_arrival(forward, ENDPOINT, "/b")
    assert (arrival.name_of(StepKind.CHAIN), arrival.name_of(StepKind.ROUTE)) == ("in_8080", "app")
    assert isinstance(arrival.outcome, Forward)
    assert arrival.outcome.upstream == Members(
        (Endpoint(address="127.0.0.1", port=8080, health="UNKNOWN", is_usable=True),)
    )


def test_bytes_are_followed_into_the_destination() -> None:
    split = EVALUATOR.evaluate_connection(dial(listener=18002)).outcome
    assert isinstance(split, Split)
    forward = split.shares[1][1]
    assert EVALUATOR.evaluate_arrival(forward, ENDPOINT, "/b").outcome == Http("in")


def test_plain_bytes_arrive_at_no_chain_that_wants_a_server_name() -> None:
    forward = Forward(cluster="x", upstream=Members(()))
    assert EVALUATOR.evaluate_arrival(forward, ENDPOINT, "/b").outcome == Close("no filter chain takes the connection")


def test_a_health_check_filter_answers_before_the_route_does() -> None:
    forward = Forward(
        cluster="x",
        upstream=Members(()),
        hop=EVALUATOR.cluster("hop").hop({}),  # type: ignore[union-attr]  # it is there
        headers=((":method", "GET"), (":path", "/live"), (":authority", "live"), ("x-a", "b")),
    )
    verdict = EVALUATOR.evaluate_arrival(forward, ENDPOINT, "/b")
    assert verdict.outcome == Answer(status=200)
    assert verdict.name_of(StepKind.HTTP_FILTER) == "health"


def test_many_endpoints_are_counted_not_listed() -> None:
    text = ", ".join(
        f"{{endpoint: {{address: {{socket_address: {{address: 10.244.1.{number}, port_value: 1}}}}}}}}"
        for number in range(1, 6)
    )
    many = SNAPSHOT.replace(
        "{name: empty, type: STATIC}",
        f"{{name: empty, type: STATIC, load_assignment: {{cluster_name: e, endpoints: [{{lb_endpoints: [{text}]}}]}}}}",
    )
    verdict = Evaluator(snapshot_of(many)).evaluate_request(dial(), get("/empty"))
    assert verdict.steps[-1].name == "10.244.1.1:1, 10.244.1.2:1, 10.244.1.3:1 and 2 more"
    assert verdict.steps[-2].why == "without TLS"
