"""The example at work: calls from two pods of a running shop, what should come and what came, as a table.

``make demo`` starts the shop and runs this. By hand, on any world that the shop was applied to:

    aether up examples/shop --nodes 2 --detach && python examples/shop/demo.py

Exit code 0 if every call was answered as it should be, 1 if not, 2 if no call could be made.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import which
from typing import Any, Self

BIN = Path(sys.executable).parent
CALLER = Path(__file__).with_name("caller.py")
CALLERS = ("shop", "payments")
"""Namespaces with a pod `client` to call from."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of pod `client` in namespace `caller`, and what must come of it.

    `authority` is the Host to send, if not the one that belongs to `host` and `port`. `by_proxy` sends the request to
    the mesh's HTTP proxy port instead of dialling. `expected` is ``service:port`` of who must answer, or a refusal.
    """

    says: str
    caller: str
    expected: str
    host: str
    port: int
    kind: str = "http"
    authority: str = ""
    by_proxy: bool = False
    is_ipv6: bool = False


def http(url: str, caller: str, expected: str, **others: Any) -> Call:
    """A GET. Behind the URL may stand what is unusual: ``Host: …``, ``by proxy``, ``over IPv6``."""
    says = " ".join([url, *others.pop("says", "").split()])
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    return Call(says=says, caller=caller, expected=expected, host=host, port=int(port or 80), **others)


def raw(kind: str, target: str, expected: str, *, says: str = "", caller: str = "shop") -> Call:
    host, _, port = target.partition(":")
    text = f"{says or kind} {target}"
    return Call(says=text, caller=caller, expected=expected, host=host, port=int(port), kind=kind)


GROUPS: Mapping[str, tuple[Call, ...]] = {
    "Name and port say who is meant; a short name means the caller's namespace": (
        http("http://web/", "shop", "shop/web:80"),
        http("http://web:8080/", "shop", "shop/web:8080"),
        http("http://web:8080/", "payments", "payments/web:8080"),
        http("http://web.shop:8080/", "payments", "shop/web:8080"),
        http("http://web.shop.aether.internal/", "payments", "shop/web:80"),
        http("http://cart:8080/", "shop", "shop/cart:8080", is_ipv6=True, says="over IPv6"),
        http("http://cart:8080/", "shop", "shop/cart:8080", by_proxy=True, says="by proxy"),
    ),
    "The port says what is spoken: HTTP, gRPC, raw TCP, a server that speaks first, UDP": (
        raw("grpc", "cart:9090", "shop/cart:9090"),
        raw("redis", "cache:6379", "+PONG" if which("redis-server") else "shop/cache:6379", says="redis PING"),
        raw("tcp", "catalog:9000", "shop/catalog:9000"),
        raw("banner", "mail:2525", "shop/mail:2525", says="wait for a banner"),
        raw("tcp", "metrics:8125", "shop/metrics:8125"),
        raw("udp", "metrics:8125", "shop/metrics:8125"),
    ),
    "What cannot be meant is refused at once, and the refusal says why": (
        http("http://web:8081/", "shop", "421 port-not-declared"),
        http("http://web:8080/", "shop", "421 port-mismatch", authority="web:80", says="Host: web:80"),
        http("http://cart/", "shop", "421 port-required", by_proxy=True, says="by proxy"),
        http("http://catalog:9000/", "shop", "421 port-not-http", by_proxy=True, says="by proxy"),
        http("http://ledger:9000/", "shop", "404", by_proxy=True, says="by proxy"),
        raw("grpc", "cart:7777", "port-not-declared"),
    ),
    "A cold call: until now this node held no endpoint of the service, and knew only its name and ports": (
        http("http://ledger.payments:9000/", "shop", "payments/ledger:9000"),
    ),
}
"""What the shop must answer. One number, 9000, is raw TCP for the catalog and HTTP for the ledger: both work."""


WRONG = "\N{MULTIPLICATION SIGN}"


class NoCaller(Exception):
    """A pod to call from cannot be reached; the text is the command line's own."""


class Caller:
    """The program caller.py in the pod `client` of one namespace: calls go in, answers come out."""

    def __init__(self, namespace: str) -> None:
        command = [str(BIN / "aether"), "exec", f"{namespace}/client", "--", sys.executable, str(CALLER)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def make(self, call: Call) -> Mapping[str, Any]:
        """What came of the call.

        Raises:
            NoCaller: the program does not run.
        """
        with suppress(BrokenPipeError):
            print(json.dumps(asdict(call)), file=self._process.stdin, flush=True)
        if line := (self._process.stdout.readline() if self._process.stdout else ""):
            answer: Mapping[str, Any] = json.loads(line)
            return answer
        raise NoCaller(self._process.stderr.read().strip() if self._process.stderr else "")


@dataclass(frozen=True)
class Style:
    """How words look: coloured on a terminal, plain anywhere else."""

    is_coloured: bool

    @classmethod
    def of_stdout(cls) -> "Style":
        return cls(sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb")

    def bold(self, text: str) -> str:
        return self._with(1, text)

    def dim(self, text: str) -> str:
        return self._with(2, text)

    def red(self, text: str) -> str:
        return self._with(31, text)

    def green(self, text: str) -> str:
        return self._with(32, text)

    def _with(self, code: int, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.is_coloured else text


def is_right(call: Call, answer: Mapping[str, Any]) -> bool:
    """The expected answer, and, where HTTP tells, from a server to whom the caller proved who it is."""
    identity = f"spiffe://aether.internal/ns/{call.caller}/sa/client"
    return (answer["got"], answer.get("caller", identity)) == (call.expected, identity)


def lines_of(call: Call, answer: Mapping[str, Any], style: Style) -> Iterator[str]:
    """One row of the table; below it the text of a refusal, or what else should be known."""
    colour, mark = (style.green, "✓") if is_right(call, answer) else (style.red, WRONG)
    got = colour(f"{answer['got']:<{GOT}}")
    first, again = answer["ms"]
    asked = f"{call.says:<{SAYS}}{call.caller:<{FROM}}{call.expected:<{GOT}}"
    yield f"  {asked}{got}{first:>6.1f}{again:>7.1f}  {colour(mark)}"
    if text := answer.get("text"):
        yield style.dim(f"    {text.strip()}")
    elif not is_right(call, answer):
        yield style.dim(f"    the server saw the caller {answer.get('caller') or 'without an identity'}")


ALL = tuple(call for calls in GROUPS.values() for call in calls)
SAYS = max(len(call.says) for call in ALL) + 2
FROM = max(len(call.caller) for call in ALL) + 2
GOT = max(len(call.expected) for call in ALL) + 2


def run(style: Style) -> int:
    """Make every call, print every row; how many were not right."""
    print(style.dim(f"  {'call':<{SAYS}}{'from':<{FROM}}{'expected':<{GOT}}{'got':<{GOT}}{'ms':>6}{'again':>7}"))
    wrong = 0
    began = time.monotonic()
    with ExitStack() as stack:
        callers = {namespace: stack.enter_context(Caller(namespace)) for namespace in CALLERS}
        for title, calls in GROUPS.items():
            print(style.bold(title), flush=True)
            for call in calls:
                answer = callers[call.caller].make(call)
                wrong += not is_right(call, answer)
                print(*lines_of(call, answer, style), sep="\n", flush=True)
    print()
    verdict = style.red(f"{wrong} of {len(ALL)} calls were not") if wrong else style.green(f"all {len(ALL)} calls were")
    print(f"{verdict} answered as they should be, in {time.monotonic() - began:.1f} s.")
    return wrong


def main() -> int:
    style = Style.of_stdout()
    try:
        return 1 if run(style) else 0
    except NoCaller as error:
        print(str(error) or "the calling program ended without a word", file=sys.stderr)
        print(
            "these calls need a world with the shop in it: `make demo`, or `aether up examples/shop`", file=sys.stderr
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
