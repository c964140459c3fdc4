"""nftables through libnftables, in process: one kept context per network namespace.

A context costs 16 ms to make and free (the kernel waits for deferred destruction) and 0.5 ms to use; so it is made once
per namespace and freed when the namespace goes: until then it keeps the namespace alive. The `nft` program is not
needed.
"""

import contextlib
import ctypes
import functools
import threading
from pathlib import Path
from typing import Self

from aether.adapters.kernel.netns import in_netns
from aether.errors import AetherError

_LIBRARY = "libnftables.so.1"


class NftMissing(AetherError):
    """libnftables is not installed."""

    code = "nft-missing"


class NftRefused(AetherError):
    """A ruleset was refused; nothing of it was applied. The message is libnftables' own text."""

    code = "nft-refused"


class Nft:
    """The ruleset of one network namespace. Any thread may use it; calls of one context run one after another.

    Calls block (under a millisecond for a pod's table), and release the interpreter lock while they do.
    """

    def __init__(self, netns: Path | None = None) -> None:
        """Open the ruleset of the namespace at `netns`, or of the calling thread's own.

        Raises:
            NftMissing: libnftables is not installed.
            KernelError: the namespace cannot be entered.
        """
        self._library = _load()
        self._lock = threading.Lock()
        with in_netns(netns) if netns is not None else contextlib.nullcontext():
            context = self._library.nft_ctx_new(0)
        if not context:
            raise NftRefused("libnftables gives no context (is netfilter allowed here?)")
        self._context: int | None = context
        self._library.nft_ctx_buffer_output(context)
        self._library.nft_ctx_buffer_error(context)

    def apply(self, text: str) -> None:
        """Apply `text` (the language of nft(8)) as one transaction.

        Raises:
            NftRefused: nothing was applied.
        """
        self._run(text)

    def list_ruleset(self) -> str:
        """The whole ruleset, as `nft list ruleset` prints it."""
        return self._run("list ruleset")

    def list_table(self, family: str, name: str) -> str:
        """One table's text; empty if there is no such table."""
        try:
            return self._run(f"list table {family} {name}")
        except NftRefused:
            return ""

    def has_table(self, family: str, name: str) -> bool:
        """Whether a table is there, with chains. A tenth of a millisecond however large its sets are."""
        return f"table {family} {name} {{" in self._run(f"list chains {family}").splitlines()

    def close(self) -> None:
        """Free the context, and with it the hold on the namespace. May take 16 ms. More than once is fine."""
        with self._lock:
            context, self._context = self._context, None
            if context is not None:
                self._library.nft_ctx_free(context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, text: str) -> str:
        with self._lock:
            if self._context is None:
                raise NftRefused("the ruleset is closed")
            failed = self._library.nft_run_cmd_from_buffer(self._context, text.encode())
            output = bytes(self._library.nft_ctx_get_output_buffer(self._context) or b"")
            errors = bytes(self._library.nft_ctx_get_error_buffer(self._context) or b"")
        if failed:
            raise NftRefused(errors.decode(errors="replace").strip() or "libnftables gave no reason")
        return output.decode(errors="replace")


def is_nft_available() -> bool:
    """Whether libnftables is installed."""
    try:
        _load()
    except NftMissing:
        return False
    return True


@functools.cache
def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise NftMissing(f"{_LIBRARY} cannot be loaded: {error}") from error
    library.nft_ctx_new.argtypes = (ctypes.c_uint32,)
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_free.argtypes = (ctypes.c_void_p,)
    library.nft_ctx_free.restype = None
    for name in ("nft_ctx_buffer_output", "nft_ctx_buffer_error"):
        getattr(library, name).argtypes = (ctypes.c_void_p,)
    for name in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        getattr(library, name).argtypes = (ctypes.c_void_p,)
        getattr(library, name).restype = ctypes.c_char_p
    library.nft_run_cmd_from_buffer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    return library
