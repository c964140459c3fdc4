"""What one Envoy has and is to be told of one resource type, on one stream.

Owns: the difference between what is wanted and what was sent, and what an answer of Envoy means for it.
Leaves to others: when a message may leave, and in which order with other types (`delta`).

Rule: everything here is a level. `compare` looks at all names again; nothing is derived from the order of events.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from aether.wire.xds.message import WILDCARD, DeltaRequest, Frame
from aether.wire.xds.order import TypeRule


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One response that Envoy has not answered."""

    frames: tuple[Frame, ...]
    removed: tuple[str, ...]
    at: float

    @property
    def is_single(self) -> bool:
        """Whether a refusal of this message can only mean one resource."""
        return len(self.frames) == 1 and not self.removed


class Refusal(msgspec.Struct, frozen=True):
    version: str
    text: str


class Subscription:
    """`pending` and `removals` are what is still to be sent; a dict stands for an ordered set.

    `substitute` gives what stands in for a refused resource that may not be removed.
    """

    def __init__(self, type_url: str, rule: TypeRule, *, substitute: Callable[[str], Frame]) -> None:
        self.type_url = type_url
        self.rule = rule
        self._substitute = substitute
        self.is_asked = False
        self.is_wildcard = False
        self.names: dict[str, None] = {}
        self.wanted: Mapping[str, Frame] = {}
        self.acked: dict[str, str] = {}
        self.refused: dict[str, Refusal] = {}
        self.in_flight: dict[int, Sent] = {}
        self.progress_at = 0.0
        self.pending: dict[str, None] = {}
        self.removals: dict[str, None] = {}
        self.denials: dict[str, None] = {}
        self._cures: dict[str, Frame | None] = {}
        self.urgent: dict[str, None] = {}
        self.owes_first_answer = False
        self._knows_wanted = False
        self._sent: dict[str, str] = {}
        self._good: dict[str, Frame] = {}
        self._alone: set[str] = set()
        self._doubtful: set[str] = set()  # may be in Envoy, which refused a message with it
        self._in_question: set[str] = set()
        self._forced: set[str] = set()

    def open(self, request: DeltaRequest) -> None:
        """Take in the first request of this type: what Envoy holds from earlier, and what it asks for."""
        self.is_asked = True
        self.is_wildcard = not request.subscribe or WILDCARD in request.subscribe
        self.names.update(dict.fromkeys(name for name in request.subscribe if name != WILDCARD))
        self.acked.update(request.initial_versions)
        self._sent.update(request.initial_versions)
        for name in self._forced.intersection(self.names):
            self._sent.pop(name, None)
        self._forced.clear()
        self.owes_first_answer = self.is_wildcard and not request.initial_versions

    def subscribe(self, names: Iterable[str]) -> list[str]:
        """Names that Envoy asks for: each must be answered, also if it was before. Those that nothing answers."""
        added = [name for name in names if name != WILDCARD]
        self.is_wildcard = self.is_wildcard or WILDCARD in names
        for name in added:
            self.names[name] = None
            self._in_question.discard(name)
            self._sent.pop(name, None)
            self.acked.pop(name, None)
            if self.rule.keeps_asked:
                self.removals.pop(name, None)
            if self._is_due(name):
                self.pending[name] = None
            elif name in self.refused:
                self.cure(name)
        return self._unanswered(added)

    def unsubscribe(self, names: Iterable[str]) -> None:
        """Names that Envoy let go of, with everything it had under them unless it has everything anyhow."""
        self.is_wildcard = self.is_wildcard and WILDCARD not in names
        for name in names:
            self.names.pop(name, None)
            self._in_question.discard(name)
            for queue in (self.denials, self.urgent):
                queue.pop(name, None)
            if not self.is_wildcard:
                self._forget(name)

    def compare(self, wanted: Mapping[str, Frame]) -> list[str]:
        """Replace what is wanted and find what that takes. Names that Envoy asked for and that nothing answers."""
        self.wanted = wanted
        self._knows_wanted = True
        if not self.is_asked:
            return []
        self.refused = {name: r for name, r in self.refused.items() if self._is_wanted(name, r.version)}
        self._note_good()
        subscribed = wanted if self.is_wildcard else {name: wanted[name] for name in self.names if name in wanted}
        sent, refused = self._sent, self.refused
        self.pending = {n: None for n, f in subscribed.items() if sent.get(n) != f.version and n not in refused}
        self.removals = {}
        if self.rule.sends_removals:
            gone = (*(name for name in sent if name not in wanted), *sorted(self._doubtful))
            self.removals = {name: None for name in gone if self._is_unwanted(name)}
        self._in_question = {name for name in self._in_question if name not in wanted}
        self._alone = {name for name in self._alone if name in wanted}
        return self._unanswered(self.names)

    def deny(self, name: str) -> None:
        """Answer that the name does not exist, unless Envoy has something under it or something is wanted."""
        if name not in self._sent and name not in self.wanted:
            self.denials[name] = None

    def cure(self, name: str, *, is_forced: bool = False) -> None:
        """Put something sound in place of a resource that Envoy refuses or is stuck with.

        The last good one if it is known. If an earlier one serves whose bytes are not known, nothing, unless
        `is_forced`. Else the name is removed, or has its substitute if it may not be.
        """
        if not self.rule.cures:
            return
        good = self._good.get(name)
        if good is not None and not self._is_wanted(name, good.version):
            self._cures[name] = good
        elif name not in self.acked or is_forced:
            self._cures[name] = None

    def follow(self, name: str) -> None:
        """The cluster of this load assignment was sent just now: send the assignment after it, changed or not."""
        if not self.is_asked:
            self._forced.add(name)
        elif name in self.names:
            self.urge(name)

    def urge(self, name: str) -> None:
        """Send a wanted resource before anything else."""
        if name in self.refused:
            self.cure(name)
        elif name in self.wanted:
            self.urgent[name] = None

    def next_cure(self) -> tuple[str, Frame | None] | None:
        """The next resource to put in place of another, or the name to remove (None beside it)."""
        if not self._cures:
            return None
        name, frame = next(iter(self._cures.items()))
        del self._cures[name]
        if frame is None and self.rule.keeps_asked and name in self.names:
            frame = self._substitute(name)
        return name, frame

    def next_put(self) -> tuple[Frame, ...]:
        """The next pending resources that may share a message; none while one that travels alone must wait.

        Such a one leaves when all before it is answered, and nothing leaves before it is answered itself: next to a
        change that is sound, Envoy might never tell that it refuses this one.
        """
        if self._alone and any(sent.is_single and self.is_alone(sent.frames) for sent in self.in_flight.values()):
            return ()
        chunk: list[str] = []
        for name in self.pending:
            if name in self._alone:
                if not chunk and not self.in_flight:
                    chunk.append(name)
                break
            chunk.append(name)
            if len(chunk) == self.rule.chunk:
                break
        return tuple(self.wanted[name] for name in chunk)

    def is_alone(self, frames: tuple[Frame, ...]) -> bool:
        """Whether nothing may be added to a message with these resources."""
        return len(frames) == 1 and frames[0].name in self._alone

    def note_sent(self, serial: int, sent: Sent) -> None:
        for frame in sent.frames:
            self._sent[frame.name] = frame.version
            if not self._is_due(frame.name):
                self.pending.pop(frame.name, None)
            self.urgent.pop(frame.name, None)
            self.denials.pop(frame.name, None)
        for name in sent.removed:
            self._sent.pop(name, None)
            self._doubtful.discard(name)
            self.removals.pop(name, None)
            self.denials.pop(name, None)
            if self._is_due(name):
                self.pending[name] = None
            elif name in self.names:
                self._in_question.add(name)
        self.in_flight[serial] = sent
        self.owes_first_answer = False

    def accept(self, sent: Sent) -> None:
        """Envoy acknowledged a message."""
        for frame in sent.frames:
            if self.is_wildcard or frame.name in self.names:
                self.acked[frame.name] = frame.version
                self._doubtful.discard(frame.name)
                if sent.is_single and self._is_wanted(frame.name, frame.version):
                    self._alone.discard(frame.name)
                if self.rule.cures:
                    self._good[frame.name] = frame
        for name in sent.removed:
            self.acked.pop(name, None)
            self._good.pop(name, None)

    def take_back(self, sent: Sent, text: str) -> None:
        """Envoy refused a message and keeps what it had: each part of it that is still wanted is sent again, alone.

        What `text` names is cured first, as it may be what keeps Envoy from answering.
        """
        for frame in sent.frames:
            if self._revert(frame) and f" {frame.name}: " in text:
                self.cure(frame.name)
        if self.rule.sends_removals and sent.frames:
            names = (*(frame.name for frame in sent.frames), *sent.removed)
            self.removals.update(dict.fromkeys(name for name in names if self._is_unwanted(name)))

    def isolate(self, *, is_forced: bool) -> None:
        """Envoy is stuck with something that it has not answered: undo all of that, and send it again, one by one."""
        for sent in self.in_flight.values():
            for frame in sent.frames:
                self.cure(frame.name, is_forced=is_forced)
                self._revert(frame)
        for name in sorted({*self.refused, *self._doubtful}):
            self.cure(name, is_forced=is_forced)

    def refuse(self, frame: Frame, text: str) -> bool:
        """Envoy refused one resource; it is cured. True if it is the wanted one and was not refused before."""
        self._revert(frame)
        if self._is_unwanted(frame.name):
            self.cure(frame.name)
        if not self._is_wanted(frame.name, frame.version) or frame.name in self.refused:
            return False
        self.cure(frame.name)
        self.refused[frame.name] = Refusal(frame.version, text)
        self._alone.discard(frame.name)
        self.pending.pop(frame.name, None)
        return True

    def is_settled(self, name: str) -> bool:
        """Whether Envoy has acknowledged what is wanted under this name: a version, or that there is none."""
        frame = self.wanted.get(name)
        if frame is not None:
            return self.acked.get(name) == frame.version
        if name in self.acked or name in self._doubtful:
            return False
        return not any(_mentions(sent, name) for sent in self.in_flight.values())

    def quiet_since(self) -> float | None:
        """Since when Envoy answers nothing though something is unanswered; None if everything is answered."""
        oldest = next(iter(self.in_flight.values()), None)
        return None if oldest is None else max(oldest.at, self.progress_at)

    def _forget(self, name: str) -> None:
        self.pending.pop(name, None)
        self._cures.pop(name, None)
        self.acked.pop(name, None)
        self._sent.pop(name, None)
        self._good.pop(name, None)

    def _revert(self, frame: Frame) -> bool:
        """Envoy has what it had before this frame. False if something else was sent under the name meanwhile."""
        name = frame.name
        if self._sent.get(name) != frame.version:
            return False
        self._sent.pop(name)
        if name in self.acked:
            self._sent[name] = self.acked[name]
        else:
            self._doubtful.add(name)
        if self._is_due(name):
            self.pending[name] = None
            self._alone.add(name)
        return True

    def _note_good(self) -> None:
        if self.rule.cures and not self._good:
            self._good = {n: self.wanted[n] for n, v in self.acked.items() if self._is_wanted(n, v)}

    def _is_wanted(self, name: str, version: str) -> bool:
        frame = self.wanted.get(name)
        return frame is not None and frame.version == version

    def _is_due(self, name: str) -> bool:
        frame = self.wanted.get(name)
        return frame is not None and self._sent.get(name) != frame.version and name not in self.refused

    def _is_unwanted(self, name: str) -> bool:
        return name not in self.wanted and not (self.rule.keeps_asked and name in self.names)

    def _unanswered(self, names: Iterable[str]) -> list[str]:
        if not self._knows_wanted:
            return []
        found = [name for name in names if name not in self.wanted and name not in self._in_question]
        if not self.rule.keeps_asked:
            found = [name for name in found if name not in self._sent]
        self._in_question.update(found)
        return found


def _mentions(sent: Sent, name: str) -> bool:
    return name in sent.removed or any(frame.name == name for frame in sent.frames)
