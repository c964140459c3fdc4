import msgspec
import pytest
from tests.support.http import over_unix
from tests.support.memoryworld import ServedWorld, ask, namespace, pod

from aether.model.world import ApplyReport, Manifest

GOOD = "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: shop}, data: {a: b}}"
BAD = "{apiVersion: v1, kind: Gizmo, metadata: {name: bad}}"


def test_objects_are_listed_by_namespace_with_the_revision_of_the_list(served: ServedWorld) -> None:
    served.apply(namespace("payments"), pod("shop/cart-1"), pod("payments/web-1"))
    status, listed = ask(served.paths.api_socket, "GET", "/v1/objects/po")
    assert status == 200
    assert [item["metadata"]["name"] for item in listed["items"]] == ["web-1", "cart-1"]
    assert listed["revision"] > 0
    _, listed = ask(served.paths.api_socket, "GET", "/v1/objects/pods?namespace=shop")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["cart-1"]


def test_one_object_is_got_and_deleted_by_its_place(served: ServedWorld) -> None:
    _, found = ask(served.paths.api_socket, "GET", "/v1/objects/namespaces/-/shop")
    assert found["metadata"]["name"] == "shop"
    served.apply(pod("shop/cart-1", node=""))
    status, _ = ask(served.paths.api_socket, "DELETE", "/v1/objects/pods/shop/cart-1?grace_s=0")
    assert status == 200
    status, problem = ask(served.paths.api_socket, "GET", "/v1/objects/pods/shop/cart-1")
    assert (status, problem["code"]) == (404, "not-found")


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("GET", "/v1/objects/gizmos", 400, "unknown-kind"),
        ("GET", "/v1/objects/pods?watch=perhaps", 400, "bad-request"),
        ("DELETE", "/v1/objects/pods/shop/nobody", 404, "not-found"),
        ("DELETE", "/v1/objects/pods/shop/nobody?grace_s=-1", 400, "bad-request"),
        ("GET", "/v1/nothing", 404, "no-such-path"),
        ("PUT", "/v1/apply", 405, "method-not-allowed"),
    ],
)
def test_what_cannot_be_done_is_a_problem_with_a_code(
    served: ServedWorld, method: str, target: str, status: int, code: str
) -> None:
    answer, problem = ask(served.paths.api_socket, method, target)
    assert (answer, problem["code"], problem["status"]) == (status, code, status)


def test_a_bad_document_is_reported_and_the_good_ones_are_applied(served: ServedWorld) -> None:
    manifests = (Manifest(where="a.yaml", text=f"{BAD}\n---\n{GOOD}"), Manifest(where="b.yaml", text="{"))
    status, answer = ask(served.paths.api_socket, "POST", "/v1/apply", msgspec.json.encode(manifests))
    report = msgspec.convert(answer, ApplyReport)
    assert status == 200
    assert [(applied.name, applied.action) for applied in report.applied] == [("good", "created")]
    assert {problem.where.split(":")[0] for problem in report.diagnostics} == {"a.yaml", "b.yaml"}
    _, again = ask(served.paths.api_socket, "POST", "/v1/apply", msgspec.json.encode(manifests[:1]))
    assert again["applied"][0]["action"] == "unchanged"


def test_a_body_that_is_no_json_or_too_large_is_refused(served: ServedWorld) -> None:
    assert ask(served.paths.api_socket, "POST", "/v1/apply", b"{")[1]["code"] == "bad-request"
    status, problem = ask(served.paths.api_socket, "POST", "/v1/apply", b" " * (17 * 1024 * 1024))
    assert (status, problem["code"]) == (413, "body-too-large")


def test_a_watch_tells_what_is_there_then_each_change(served: ServedWorld) -> None:
    served.apply(namespace("payments"), pod("shop/cart-1"))
    with over_unix(served.paths.api_socket) as connection:
        connection.request("GET", "/v1/objects/pods?watch=true&namespace=shop")
        lines = iter(connection.getresponse())
        first, bookmark = (msgspec.json.decode(next(lines)) for _ in range(2))
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "cart-1")
        assert bookmark["type"] == "BOOKMARK"
        served.apply(pod("payments/web-1"), pod("shop/cart-2"))
        event = next(event for event in map(msgspec.json.decode, lines) if event["type"] != "BOOKMARK")
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "cart-2")


def test_the_kinds_are_listed_with_their_names(served: ServedWorld) -> None:
    _, kinds = ask(served.paths.api_socket, "GET", "/v1/kinds")
    assert {"name": "Pod", "plural": "pods", "short": "po", "is_namespaced": True} in kinds
