"""A conversation with a `DeltaStream`, written short: what Envoy says, what it hears."""

from collections.abc import Mapping

from aether.wire.xds.delta import DeltaStream
from aether.wire.xds.message import DeltaRequest, Event, Frame, SendResponse
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET

TYPES: Mapping[str, str] = {"cds": CLUSTER, "eds": ENDPOINT, "lds": LISTENER, "rds": ROUTE, "sds": SECRET}
_SHORT = {url: short for short, url in TYPES.items()}


class Talk:
    """Contents are texts such as ``a=1 b=2``: name and version. Heard messages are ``cds a=1 b=2 -gone``."""

    def __init__(self) -> None:
        self.stream = DeltaStream(substitute=lambda name: frame(f"{name}=tombstone"))
        self.now = 0.0
        self.events: list[Event] = []
        self._contents: dict[str, dict[str, Frame]] = {}
        self._unanswered: dict[str, list[SendResponse]] = {short: [] for short in TYPES}

    def publish(self, **contents: str) -> None:
        """Replace these types; the others stay."""
        for short, text in contents.items():
            frames = (frame(part) for part in text.split())
            self._contents[TYPES[short]] = {one.name: one for one in frames}
        self.events += self.stream.publish(dict(self._contents))

    def says(self, short: str, subscribe: str = "", *, leaves: str = "", has: str = "") -> None:
        """A request that answers nothing. `has` are initial versions."""
        versions = dict(part.split("=") for part in has.split())
        self._request(
            DeltaRequest(
                type_url=TYPES[short],
                subscribe=tuple(subscribe.split()),
                unsubscribe=tuple(leaves.split()),
                initial_versions=versions,
            )
        )

    def acks(self, short: str, subscribe: str = "") -> None:
        """Answer the oldest message of a type."""
        self._answer(short, None, subscribe)

    def refuses(self, short: str, text: str = "no") -> None:
        self._answer(short, text, "")

    def hears(self) -> list[str]:
        """Everything the server has to say now."""
        heard = []
        while (response := self.stream.next_send(now=self.now)) is not None:
            short = _SHORT[response.type_url]
            self._unanswered[short].append(response)
            parts = [f"{one.name}={one.version}" for one in response.resources]
            heard.append(" ".join([short, *parts, *(f"-{name}" for name in response.removed)]))
        return heard

    def hears_and_acks(self) -> list[str]:
        """Everything until there is no more, each message acknowledged."""
        heard = []
        while now := self.hears():
            heard += now
            for short, responses in self._unanswered.items():
                for _ in tuple(responses):
                    self.acks(short)
        return heard

    def waits(self, seconds: float) -> None:
        self.now += seconds
        self.events += self.stream.on_time(now=self.now)

    def opens(self) -> None:
        """The first requests of a fresh Envoy that needs the assignment `a` and the table `t`."""
        self.says("cds")
        self.says("eds", "a")
        self.says("lds")
        self.says("rds", "t")

    def _answer(self, short: str, error: str | None, subscribe: str) -> None:
        response = self._unanswered[short].pop(0)
        self._request(
            DeltaRequest(
                type_url=response.type_url, nonce=response.nonce, error=error, subscribe=tuple(subscribe.split())
            )
        )

    def _request(self, request: DeltaRequest) -> None:
        self.events += self.stream.on_request(request, now=self.now)


def frame(text: str) -> Frame:
    name, _, version = text.partition("=")
    return Frame(name=name, version=version, data=text.encode())
