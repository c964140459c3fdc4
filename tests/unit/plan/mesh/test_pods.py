import msgspec
from tests.support.facts import declared, local_pod, node_facts

from aether.model.facts import MeshConfig
from aether.model.names import ServiceId
from aether.plan.mesh.pods import REFUSED, declared_pods


def test_the_nodes_managed_pods_are_declared_in_order() -> None:
    facts = node_facts(pods=[local_pod("b", "10.244.1.3"), local_pod("a", "10.244.1.2", ports="9000=tcp")])
    first, second = declared_pods(facts)
    assert (first.pod.name, first.declaration.ports, first.problems) == ("a", declared("9000=tcp"), ())
    assert (second.pod.name, second.service) == ("b", ServiceId("shop", "cart"))


def test_unmanaged_pods_and_ignored_namespaces_are_not_the_meshs() -> None:
    pods = [local_pod("a", "10.244.1.2", managed="false"), local_pod("b", "10.244.1.3", namespace="kube-system")]
    assert declared_pods(node_facts(pods=pods, config=MeshConfig(ignored_namespaces=("kube-system",)))) == ()


def test_a_pod_is_unmanaged_though_the_rest_of_its_annotations_is_wrong() -> None:
    assert declared_pods(node_facts(pods=[local_pod("a", "10.244.1.2", managed="false", ports="x")])) == ()


def test_a_pod_whose_declaration_is_refused_stays_captured_and_serves_nothing() -> None:
    pods = [local_pod("a", "10.244.1.2", ports="8080,x", redirect_all="false", upstreams="pay")]
    (found,) = declared_pods(node_facts(pods=pods))
    assert found.declaration == REFUSED
    assert REFUSED.is_captured
    assert [(problem.code, problem.where, problem.subject) for problem in found.problems] == [
        ("bad-port", "n1", "Pod shop/a")
    ]


def test_every_reason_to_refuse_a_pod_is_found() -> None:
    (found,) = declared_pods(node_facts(pods=[local_pod("a", account="cart.v2", ports="x")]))
    assert [problem.code for problem in found.problems] == ["bad-account", "bad-port", "no-address"]
    assert found.declaration == REFUSED


def test_a_terminating_pod_is_still_the_nodes() -> None:
    pod = msgspec.structs.replace(local_pod("a", "10.244.1.2"), is_terminating=True)
    assert len(declared_pods(node_facts(pods=[pod]))) == 1
