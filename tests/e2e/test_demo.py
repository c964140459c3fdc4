"""`make demo`: everything it says is checked by the demo itself; here, that it can be believed."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from shutil import copytree

import pytest
from tests.support.figures import Figure
from tests.support.world import RunningWorld, world

from aether.adapters.paths import WorldPaths

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "shop"
DEMO = (sys.executable, str(SHOP / "demo.py"))
WRONG = "\N{MULTIPLICATION SIGN}"
LIMIT_S = 120

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("demo")]


def environment(**others: str) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", **others}


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("  ") and line.endswith(("✓", WRONG))]


def test_the_demo_makes_its_calls_says_what_came_and_leaves_nothing(figure: Figure) -> None:
    name = f"demo-test-{os.getpid()}"
    env = environment(ONCE="1", AETHER_WORLD=name)
    with subprocess.Popen(
        [ROOT / "tools" / "demo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    ) as process:
        out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out
    assert len(rows(out)) >= 12
    assert WRONG not in out
    for reason in ("port-mismatch", "port-required", "port-not-declared", "port-not-http"):
        assert f"421 {reason}" in out
    paths = WorldPaths.of_user(f"{name}-{process.pid}")
    assert not paths.runtime.exists()
    assert not paths.state.exists()
    shown = [untimed(row) for row in rows((ROOT / "README.md").read_text())]
    assert shown
    assert not set(shown) - {untimed(row) for row in rows(out)}, "the README shows what the demo does not say"
    figure("demo: the shop on two nodes is up, s", up_seconds(out))


def test_the_demo_stays_up_for_the_commands_it_names_until_ctrl_c() -> None:
    name = f"demo-stays-{os.getpid()}"
    with subprocess.Popen(
        [ROOT / "tools" / "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={key: value for key, value in environment(AETHER_WORLD=name).items() if key != "ONCE"},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        lines = list(takewhile(lambda line: not line.startswith("Ctrl-C ends it"), process.stdout))
        try:
            commands = "".join(lines).partition("In another terminal, in this directory:")[2]
            said = subprocess.run(
                ["bash", "-ec", commands], capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT, check=False
            )
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(LIMIT_S)
    assert said.returncode == 0, f"{said}\n{lines}"
    assert "shop/web" in said.stdout
    assert said.stdout.count("port-not-declared") >= 2
    paths = WorldPaths.of_user(name)
    assert process.returncode == 130
    assert not paths.runtime.exists()
    assert not paths.state.exists()


def untimed(row: str) -> tuple[str, ...]:
    """A row without its milliseconds."""
    *words, _, _, mark = row.split()
    return (*words, mark)


def up_seconds(out: str) -> float:
    line = next(line for line in out.splitlines() if line.startswith("the mesh is up after"))
    return float(line.split()[5])


@pytest.fixture(scope="module")
def other_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    """A shop whose catalog declares another port than the demo knows, and whose ledger answers under a wrong name."""
    directory = tmp_path_factory.mktemp("other") / "shop"
    copytree(SHOP, directory)
    for file, old, new in (
        ("12-catalog.yaml", '"8080,9000=tcp"', '"8080"'),
        ("20-payments.yaml", "value: payments/ledger", "value: payments/other"),
    ):
        text = (directory / file).read_text()
        assert old in text
        (directory / file).write_text(text.replace(old, new))
    with world(f"demo-other-{os.getpid()}", directory) as running:
        yield running


def test_the_demo_fails_by_exactly_the_calls_that_were_answered_wrongly(other_shop: RunningWorld) -> None:
    env = environment(AETHER_WORLD=other_shop.name)
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=LIMIT_S, env=env, check=False)
    assert done.returncode == 1, done
    wrong = [row for row in rows(done.stdout) if row.endswith(WRONG)]
    assert [row.split()[:2] for row in wrong] == [
        ["tcp", "catalog:9000"],
        ["http://catalog:9000/", "by"],
        ["http://ledger.payments:9000/", "shop"],
    ]
    assert "\033" not in done.stdout
    assert f"3 of {len(rows(done.stdout))} calls were not answered as they should be" in done.stdout


def test_the_demo_is_coloured_on_a_terminal(other_shop: RunningWorld) -> None:
    ours, theirs = pty.openpty()
    env = {key: value for key, value in environment(AETHER_WORLD=other_shop.name).items() if key != "NO_COLOR"}
    with subprocess.Popen(DEMO, stdout=theirs, stdin=subprocess.DEVNULL, env={**env, "TERM": "xterm"}) as process:
        os.close(theirs)
        text = read_all(ours)
    assert process.returncode == 1, text
    assert "\033[32m✓\033[0m" in text
    assert f"\033[31m{WRONG}\033[0m" in text


def read_all(terminal: int) -> str:
    """Until the other side is closed, which a terminal tells as an error."""
    chunks = []
    try:
        while chunk := os.read(terminal, 65536):
            chunks.append(chunk)
    except OSError:
        pass
    finally:
        os.close(terminal)
    return b"".join(chunks).decode()


def test_without_a_world_the_demo_says_how_to_start_one() -> None:
    env = environment(AETHER_WORLD="nowhere")
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=LIMIT_S, env=env, check=False)
    assert done.returncode == 2
    assert "no world 'nowhere' is running" in done.stderr
    assert "make demo" in done.stderr
