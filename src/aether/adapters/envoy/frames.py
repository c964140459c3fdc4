"""Published resources as frames, each encoded once for as long as its content stays."""

from collections.abc import Mapping

from aether.render.envoy.resource import Resource
from aether.wire.xds.message import Frame, frame_resource

Snapshot = Mapping[str, Mapping[str, Resource]]
"""Type URL, then name. A mapping that was published is never changed afterwards: a change is a new one."""


def frame_of(resource: Resource) -> Frame:
    return frame_resource(resource.name, resource.type_url, resource.version, resource.body)


class Frames:
    """The frames of the newest snapshot, by type and name. A type whose mapping is the same object keeps its own."""

    def __init__(self) -> None:
        self._published: dict[str, Mapping[str, Resource]] = {}
        self._frames: dict[str, dict[str, Frame]] = {}

    def replace(self, snapshot: Snapshot) -> Mapping[str, Mapping[str, Frame]]:
        self._frames = {url: self._of_type(url, resources) for url, resources in snapshot.items()}
        self._published = dict(snapshot)
        return self._frames

    def _of_type(self, type_url: str, resources: Mapping[str, Resource]) -> dict[str, Frame]:
        held = self._frames.get(type_url, {})
        if resources is self._published.get(type_url):
            return held
        frames = {}
        for name, resource in resources.items():
            frame = held.get(name)
            frames[name] = frame if frame and frame.version == resource.version else frame_of(resource)
        return frames
