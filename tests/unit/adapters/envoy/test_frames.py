from aether.adapters.envoy.frames import Frames, frame_of
from aether.render.envoy.resource import Resource, resource_of
from aether.wire.xds.order import CLUSTER, ROUTE


def _resource(name: str, body: bytes, type_url: str = CLUSTER) -> Resource:
    return resource_of(name, type_url, body)


def test_equal_content_keeps_its_frame_though_it_was_rendered_again() -> None:
    frames = Frames()
    first = frames.replace({CLUSTER: {"a": _resource("a", b"1"), "b": _resource("b", b"1")}})
    second = frames.replace({CLUSTER: {"a": _resource("a", b"1"), "b": _resource("b", b"2")}})
    assert second[CLUSTER]["a"] is first[CLUSTER]["a"]
    assert second[CLUSTER]["b"] == frame_of(_resource("b", b"2"))


def test_a_type_whose_mapping_is_the_same_object_keeps_its_frames_as_one() -> None:
    frames = Frames()
    clusters = {"a": _resource("a", b"1")}
    first = frames.replace({CLUSTER: clusters})
    second = frames.replace({CLUSTER: clusters, ROUTE: {"t": _resource("t", b"1", ROUTE)}})
    assert second[CLUSTER] is first[CLUSTER]
    assert set(second) == {CLUSTER, ROUTE}


def test_what_is_not_published_any_more_has_no_frame() -> None:
    frames = Frames()
    frames.replace({CLUSTER: {"a": _resource("a", b"1")}, ROUTE: {"t": _resource("t", b"1", ROUTE)}})
    assert frames.replace({CLUSTER: {}}) == {CLUSTER: {}}
