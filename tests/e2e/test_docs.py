"""What the pages say happens: their commands are run, and print what the pages show.

A page's ```console blocks are run in order, in one folder. ```yaml NAME blocks are files that the reader saves. Below a
command stand lines of its output, in order, not necessarily all; `…` stands for anything, and columns may be wider.
``# exit code N`` behind a command says how it ends, if not well. A reader takes some seconds from one command to the
next and looks again where something is still starting: so a command with output is run until it prints what it should.
"""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.world import RunningWorld, world

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "shop"
BIN = Path(sys.executable).parent

TUTORIAL = ("docs/tutorial/first-mesh.md", "docs/tutorial/break-things.md")
HOW_TO = tuple(sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "how-to").glob("*.md")))

COMMAND_LIMIT_S = 90
READER_LIMIT_S = 30.0
"""How long a reader looks again for what a page shows."""

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.software]


class Save(msgspec.Struct, frozen=True):
    """A block that the reader saves as a file."""

    name: str
    text: str


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command of a page, at a line of it, and what the page shows below."""

    line: int
    text: str
    shown: tuple[str, ...]
    exit_code: int = 0


_FENCE = re.compile(r"^```(\S*) ?(.*)$")
_EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")


def read_page(text: str) -> Iterator[Save | Command]:
    """What a reader of the page does, in order."""
    kind, argument, block, start = "", "", [], 0
    is_inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not (fence := _FENCE.match(line)):
            block.append(line)
        elif is_inside:
            is_inside = False
            if kind == "console":
                yield from _commands(block, start)
            elif argument:
                yield Save(argument, "\n".join(block) + "\n")
        else:
            is_inside, block, start = True, [], number
            kind, argument = fence.groups()
    assert not is_inside, "a block of code does not end"


def _commands(block: Sequence[str], start: int) -> Iterator[Command]:
    starts = [index for index, line in enumerate(block) if line.startswith("$ ")]
    assert starts[:1] == [0], f"line {start + 1}: a console block begins with a command"
    for index, end in zip(starts, [*starts[1:], len(block)], strict=True):
        text = block[index].removeprefix("$ ")
        code = int(found.group(1)) if (found := _EXIT_CODE.search(text)) else 0
        shown = tuple(line for line in block[index + 1 : end] if line.strip() not in {"", "…"})
        yield Command(line=start + index + 1, text=_EXIT_CODE.sub("", text), shown=shown, exit_code=code)


def missing(shown: Sequence[str], output: str) -> str | None:
    """The first line that the page shows and the output lacks behind the ones before; None if all are there."""
    lines = iter(" ".join(line.split()) for line in output.splitlines())
    for line in shown:
        pattern = re.compile(re.escape(" ".join(line.split())).replace("…", ".*"))
        if not any(pattern.fullmatch(each) for each in lines):
            return line
    return None


class Reader:
    """Somebody who follows pages to the letter, in a folder of their own beside the examples."""

    def __init__(self, folder: Path, world_name: str) -> None:
        self._folder = folder
        self._env = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "AETHER_WORLD": world_name,
            "NO_COLOR": "1",
        }
        with contextlib.suppress(FileExistsError):
            (folder / "examples").symlink_to(ROOT / "examples")

    def follow(self, page: str) -> None:
        for step in read_page((ROOT / page).read_text()):
            match step:
                case Save(name=name, text=text):
                    (self._folder / name).write_text(text)
                case Command():
                    self._do(page, step)

    def _do(self, page: str, command: Command) -> None:
        deadline = time.monotonic() + READER_LIMIT_S
        while True:
            code, output = self._run(command.text)
            lacks = missing(command.shown, output)
            if (code, lacks) == (command.exit_code, None):
                return
            what = f"lacks {lacks!r}" if lacks else f"ended with {code}, not {command.exit_code}"
            is_over = not command.shown or time.monotonic() > deadline
            assert not is_over, f"{page}:{command.line}: $ {command.text}\n{what}; it printed:\n{output}"
            time.sleep(0.3)

    def _run(self, text: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def shop() -> Iterator[RunningWorld]:
    """The world that every page but the tutorial takes for granted."""
    with world(f"docs-{os.getpid()}", SHOP, nodes=2) as running:
        yield running


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("docs-tutorial")
def test_the_tutorial_can_be_followed_to_the_letter(tmp_path: Path) -> None:
    name = f"tutorial-{os.getpid()}"
    reader = Reader(tmp_path, name)
    try:
        for page in TUTORIAL:
            reader.follow(page)
    finally:
        command = [str(BIN / "aether"), "down", "--forget", "--world", name]
        subprocess.run(command, capture_output=True, timeout=COMMAND_LIMIT_S, check=False)


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("docs")
@pytest.mark.parametrize("page", ["README.md", *(pytest.param(page, marks=pytest.mark.slow) for page in HOW_TO)])
def test_the_page_can_be_followed_to_the_letter(shop: RunningWorld, tmp_path: Path, page: str) -> None:
    before = namespaces(shop)
    Reader(tmp_path, shop.name).follow(page)
    shop.wait(f"{page} leaves no namespace behind", lambda: namespaces(shop) == before)


def namespaces(shop: RunningWorld) -> set[str]:
    listed = shop.api.get("/v1/objects/Namespace", reply=dict[str, Any])["items"]
    return {namespace["metadata"]["name"] for namespace in listed}


def test_shown_lines_are_looked_for_in_order() -> None:
    output = "NAME      AGE\nweb-1     3s\nweb-2     4s\n"
    assert missing(["NAME  AGE", "web-…  …s"], output) is None
    assert missing(["web-2  4s", "web-1  3s"], output) == "web-1  3s"
    assert missing(["web-1"], output) == "web-1"


def test_a_page_is_read_as_files_and_commands() -> None:
    blocks = ("```yaml a.yaml\nkind: A", "```console\n$ one\nout\n\n…\n$ two  # exit code 2", "```sh\nnot run")
    page = "# Title\n" + "".join(f"{block}\n```\n" for block in blocks)
    assert list(read_page(page)) == [
        Save("a.yaml", "kind: A\n"),
        Command(line=6, text="one", shown=("out",)),
        Command(line=10, text="two", shown=(), exit_code=2),
    ]
