import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aether.errors import Rejected
from aether.model.kube import ConfigMap, KubeServicePort, Meta
from aether.model.kube_parse import (
    CONFIG_MAP_LIMIT_BYTES,
    READERS,
    inspect,
    parse_config_map,
    parse_deployment,
    parse_node,
    parse_pod,
    parse_service,
    template_of,
)
from aether.model.ports import Transport

POD_SPEC = {"containers": [{"name": "main", "image": "host", "command": ["run"]}]}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": POD_SPEC}


def deployment(**spec: Any) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}


def service(name: str = "a", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels or {}}
    spec = {"ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def said(kind: str, object_: dict[str, Any]) -> list[str]:
    return [f"{problem.field}: {problem.message}" for problem in inspect(kind, object_)]


def test_a_deployment_has_kubernetes_defaults() -> None:
    parsed = parse_deployment(deployment())
    assert (parsed.replicas, parsed.max_surge, parsed.max_unavailable) == (1, "25%", "25%")
    assert (parsed.is_recreate, parsed.is_paused, parsed.min_ready_s) == (False, False, 0)
    assert parsed.selector == (("app", "a"),)
    assert parsed.template.spec.containers[0].name == "main"


def test_everything_a_deployment_may_say() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "50%"}}
    object_ = deployment(replicas=3, strategy=strategy, minReadySeconds=4, paused=True, revisionHistoryLimit=1)
    parsed = parse_deployment(object_)
    assert (parsed.replicas, parsed.max_surge, parsed.max_unavailable) == (3, 2, "50%")
    assert (parsed.min_ready_s, parsed.is_paused) == (4, True)
    assert parse_deployment(deployment(strategy={"type": "Recreate"})).is_recreate
    assert not inspect("Deployment", object_)


WRONG_DEPLOYMENTS = [
    ({"selector": {}}, "spec.selector.matchLabels: is missing"),
    ({"selector": {"matchLabels": {"app": "b"}}}, "spec.selector.matchLabels: does not match spec.template.metadata"),
    (
        {"selector": {"matchLabels": {"app": "a"}, "matchExpressions": []}},
        "spec.selector.matchExpressions: is not supported here; use matchLabels",
    ),
    ({"replicas": -1}, "spec.replicas: -1 must be from 0 to 2147483647"),
    ({"strategy": {"rollingUpdate": {"maxSurge": "lots"}}}, "spec.strategy.rollingUpdate.maxSurge: 'lots' must be a"),
    (
        {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
        "spec.strategy.rollingUpdate.maxUnavailable: must not be 0 when maxSurge is 0",
    ),
    (
        {"template": {**TEMPLATE, "spec": {**POD_SPEC, "restartPolicy": "Never"}}},
        "spec.template.spec.restartPolicy: must be Always",
    ),
    ({"template": {"spec": POD_SPEC}}, "spec.selector.matchLabels: does not match spec.template.metadata.labels"),
    ({"zone": 1}, "spec.zone: field 'zone' is not supported here and is ignored"),
]


@pytest.mark.parametrize(("spec", "expected"), WRONG_DEPLOYMENTS, ids=[row[1] for row in WRONG_DEPLOYMENTS])
def test_what_is_wrong_about_a_deployment(spec: dict[str, Any], expected: str) -> None:
    assert said("Deployment", deployment(**spec))[0].startswith(expected)


def test_a_service_maps_ports_to_pods_ports() -> None:
    ports = [
        {"name": "web", "port": 80, "targetPort": "http", "appProtocol": "http"},
        {"name": "dns-tcp", "port": 53, "targetPort": 5353},
        {"name": "dns-udp", "port": 53, "protocol": "UDP"},
    ]
    parsed = parse_service(service(ports=ports, selector={"app": "a"}))
    assert parsed.ports == (
        KubeServicePort(number=80, transport=Transport.TCP, target="http", name="web", app_protocol="http"),
        KubeServicePort(number=53, transport=Transport.TCP, target=5353, name="dns-tcp"),
        KubeServicePort(number=53, transport=Transport.UDP, target=53, name="dns-udp"),
    )
    assert parsed.selector == (("app", "a"),)
    assert (parsed.addresses, parsed.is_headless) == ((), False)


def test_a_services_addresses() -> None:
    assert parse_service(service(clusterIP="10.96.0.5")).addresses == ("10.96.0.5",)
    both = service(clusterIP="10.96.0.5", clusterIPs=["10.96.0.5", "FD96::0005"])
    assert parse_service(both).addresses == ("10.96.0.5", "fd96::5")
    headless = parse_service(service(clusterIP="None", ports=[]))
    assert (headless.addresses, headless.is_headless) == ((), True)


def test_a_generated_service_may_have_no_ports_yet() -> None:
    assert parse_service(service(labels={"aether.io/generated": "true"}, ports=[])).ports == ()


WRONG_SERVICES = [
    ({"ports": []}, "spec.ports: is missing"),
    ({"ports": [{"port": 80}, {"port": 81, "name": "b"}]}, "spec.ports[0].name: is missing: it is needed when there"),
    (
        {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]},
        "spec.ports[1].name: port name a is there twice",
    ),
    (
        {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
        "spec.ports[1].port: port 80/tcp is there twice",
    ),
    ({"ports": [{"port": 80, "protocol": "SCTP"}]}, "spec.ports[0].protocol: 'SCTP' must be one of TCP, UDP"),
    ({"ports": [{"port": 0}]}, "spec.ports[0].port: port 0 must be from 1 to 65535"),
    ({"type": "ExternalName"}, "spec.type: ExternalName is not supported here"),
    ({"type": "NodePort"}, "spec.type: NodePort is served as ClusterIP"),
    ({"clusterIP": "ten"}, "spec.clusterIP: 'ten' is no IP address"),
    ({"sessionAffinity": "ClientIP"}, "spec.sessionAffinity: ClientIP is not supported here and is ignored"),
]


@pytest.mark.parametrize(("spec", "expected"), WRONG_SERVICES, ids=[row[1] for row in WRONG_SERVICES])
def test_what_is_wrong_about_a_service(spec: dict[str, Any], expected: str) -> None:
    assert said("Service", service(**spec))[0].startswith(expected)


@pytest.mark.parametrize("name", ["0a", "a.b", "a" * 64])
def test_a_services_name_is_an_rfc_1035_label(name: str) -> None:
    assert "must be an RFC 1035 label of at most 63 bytes" in said("Service", service(name))[0]


def config_map(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, **fields}


def test_a_config_map_has_text_and_bytes() -> None:
    object_ = config_map(data={"b": "2", "a": "1"}, binaryData={"c": base64.b64encode(b"\xff").decode()})
    assert parse_config_map(object_) == ConfigMap(
        meta=Meta(name="m"), data=(("a", "1"), ("b", "2")), binary_data=(("c", b"\xff"),)
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"data": {"a/b": "x"}}, "data[a/b]: 'a/b' is no ConfigMap key"),
        ({"data": {"..": "x"}}, "data[..]: '..' is no ConfigMap key"),
        ({"data": {"n": 7}}, "data.n: must be text; write it in quotes"),
        ({"binaryData": {"a": "!"}}, "binaryData[a]: is not base64"),
        ({"binaryData": {"a": "\x80"}}, "binaryData[a]: is not base64"),
        ({"data": {"a": "x" * (CONFIG_MAP_LIMIT_BYTES + 1)}}, "data: 1048577 bytes are more than the limit of 1048576"),
    ],
)
def test_what_is_wrong_about_a_config_map(fields: dict[str, Any], expected: str) -> None:
    assert said("ConfigMap", config_map(**fields)) == [expected]


def test_a_node_has_ranges_and_addresses() -> None:
    addresses = [{"type": "InternalIP", "address": "10.243.0.1"}, {"type": "Hostname", "address": "n"}]
    node = parse_node(
        {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.244.1.0/24"]}, "status": {"addresses": addresses}}
    )
    assert (node.pod_cidrs, node.addresses) == (("10.244.1.0/24",), ("10.243.0.1",))


def test_parsing_refuses_with_every_error_and_names_the_object() -> None:
    with pytest.raises(Rejected) as caught:
        parse_pod({"kind": "Pod", "metadata": {"name": "P"}, "spec": {"containers": [{"name": "c"}], "x": 1}})
    assert {problem.subject for problem in caught.value.diagnostics} == {"Pod P"}
    assert [problem.field for problem in caught.value.diagnostics] == [
        "metadata.name",
        "spec.containers[0].image",
        "spec.containers[0].command",
    ]


def test_a_warning_does_not_keep_an_object_from_being_parsed() -> None:
    assert parse_pod({"metadata": {"name": "p"}, "spec": {**POD_SPEC, "x": 1}}).meta.name == "p"


def test_an_account_and_a_namespace_are_their_names() -> None:
    assert said("Namespace", {"metadata": {"name": "a.b"}}) == [
        "metadata.name: 'a.b' must be an RFC 1123 label of at most 63 bytes"
    ]
    assert said("ServiceAccount", {"metadata": {"name": "a.b"}}) == []


def test_pods_and_deployments_make_pods() -> None:
    found = template_of("Deployment", deployment())
    assert found is not None
    assert found[0] == "spec.template."
    assert found[1].labels == (("app", "a"),)
    pod = template_of("Pod", {"metadata": {"name": "p", "annotations": {"a": "b"}}})
    assert pod is not None
    assert (pod[0], pod[1].annotations) == ("", (("a", "b"),))
    assert template_of("Service", service()) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
NAMED = st.fixed_dictionaries(
    {},
    optional={
        name: JSON
        | st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "ports", "template", "containers"), JSON))
        for name in ("metadata", "spec", "data", "binaryData", "status")
    },
)


@given(kind=st.sampled_from(sorted(READERS)), object_=NAMED)
def test_any_json_is_inspected_without_failing(kind: str, object_: dict[str, Any]) -> None:
    inspect(kind, object_)
    template_of(kind, object_)
