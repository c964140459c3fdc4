"""Follow a node's access log: count refusals, keep the last lines, keep the file small.

Envoy appends (O_APPEND), so the file may be cut to nothing in place once it has been read past `LIMIT_BYTES`.
"""

from collections import Counter, deque
from pathlib import Path
from typing import Any

import msgspec

from aether.model.facts import Refusals

LIMIT_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
MAX_KEYS = 4096
"""Distinct (authority, reason) pairs that are counted; authorities are client-chosen, so there must be an end."""
OVERFLOW_AUTHORITY = "(others)"


class AccessLog:
    """Reads what was appended since the last look."""

    def __init__(self, path: Path, *, keep_lines: int = 200) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._counts: Counter[tuple[str, str]] = Counter()
        self.last: deque[dict[str, Any]] = deque(maxlen=keep_lines)

    def read(self) -> bool:
        """Take in what is new; True if there was any."""
        try:
            with self._path.open("rb") as file:
                file.seek(0, 2)
                if file.tell() < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                data = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return False
        if not data:
            self._trim()
            return False
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        return True

    def refusals(self) -> tuple[Refusals, ...]:
        return tuple(sorted(Refusals(name, reason, count) for (name, reason), count in self._counts.items()))

    def _take(self, line: bytes) -> None:
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        self.last.append(entry)
        if reason := entry.get("error"):
            key = (_full_name(entry), str(reason))
            if key not in self._counts and len(self._counts) >= MAX_KEYS:
                key = (OVERFLOW_AUTHORITY, str(reason))
            self._counts[key] += 1

    def _trim(self) -> None:
        if self._offset > LIMIT_BYTES:
            with self._path.open("r+b") as file:
                file.truncate(0)
            self._offset = 0


def _full_name(entry: dict[str, Any]) -> str:
    """The authority as the client spelled it; a short name with its caller's namespace, whose service it means."""
    authority, namespace = str(entry.get("authority") or ""), str(entry.get("source_namespace") or "")
    host, separator, port = authority.partition(":")
    is_short = bool(host) and "." not in host and not host.startswith("[")
    return f"{host}.{namespace}{separator}{port}" if is_short and namespace else authority
