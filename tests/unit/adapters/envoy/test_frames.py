"""Frames are encoded once for as long as their content stays."""

from aether.adapters.envoy.frames import Frames, frame_of
from aether.render.envoy.resource import resource_of

URL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"


def test_what_stays_the_same_keeps_its_frame_and_what_changed_has_a_new_one() -> None:
    frames = Frames()
    before = frames.replace({URL: {name: resource_of(name, URL, b"1") for name in ("a", "b")}})
    old_a, old_b = before[URL]["a"], before[URL]["b"]
    after = frames.replace({URL: {"a": resource_of("a", URL, b"1"), "b": resource_of("b", URL, b"2")}})
    assert after[URL]["a"] is old_a
    assert after[URL]["b"] != old_b
    assert after[URL]["b"] == frame_of(resource_of("b", URL, b"2"))


def test_a_mapping_that_is_the_same_object_is_not_looked_at_again() -> None:
    frames = Frames()
    clusters = {"a": resource_of("a", URL, b"1")}
    before = frames.replace({URL: clusters})[URL]
    assert frames.replace({URL: clusters})[URL] is before


def test_a_type_that_is_no_longer_published_is_gone() -> None:
    frames = Frames()
    frames.replace({URL: {"a": resource_of("a", URL, b"1")}})
    assert frames.replace({}) == {}
