"""`aether check`: everything that must be true, one fact a line, with what to do where it is not."""

from collections.abc import Iterable
from importlib.metadata import version

from aether.cli.client import ApiClient
from aether.cli.failure import FAILED, ApiRefusal, CliError, NoWorld
from aether.cli.format import Output
from aether.cli.output import MARKS, console, escaped, print_data, print_line
from aether.cli.world.host import host_section
from aether.cli.world.version import WorldVersion
from aether.cli.worlds import choose_world
from aether.model.world import Check, CheckSection, CheckVerdict


def run_check(world: str | None, output: Output) -> int:
    """The exit code: 1 if anything failed. Without a world, and none named, the host alone is looked at."""
    sections = (host_section(), *_world_sections(world))
    if output in {Output.JSON, Output.YAML}:
        print_data(sections, output)
    else:
        print_sections(sections)
    return FAILED if _count(sections, CheckVerdict.FAILED) else 0


def print_sections(sections: Iterable[CheckSection]) -> None:
    """A title, its facts; the reason and the advice below a fact that is not as it should be; a sum."""
    sections = tuple(sections)
    stdout = console()
    for section in sections:
        stdout.print(f"[bold]{escaped(section.title)}[/]")
        for check in section.checks:
            stdout.print(f"{MARKS[check.verdict]} {escaped(check.fact)}{_reason(check)}")
            if check.advice:
                stdout.print(f"    [dim]→[/] {escaped(check.advice)}")
        print_line()
    ok, warnings, failed = (_count(sections, verdict) for verdict in CheckVerdict)
    print_line(f"{ok} ok, {warnings} warnings, {failed} failed")


def _reason(check: Check) -> str:
    return f": {escaped(check.why)}" if check.why else ""


def _count(sections: Iterable[CheckSection], verdict: CheckVerdict) -> int:
    return sum(check.verdict is verdict for section in sections for check in section.checks)


def _world_sections(world: str | None) -> tuple[CheckSection, ...]:
    try:
        client = ApiClient(choose_world(world).api_socket)
        running = client.get("/v1/version", reply=WorldVersion)
    except NoWorld as error:
        if world is not None:
            raise
        note = Check(fact=str(error), verdict=CheckVerdict.WARNING, advice=error.advice)
        return (CheckSection(title="world", checks=(note,)),)
    try:
        sections = client.get("/v1/check", reply=tuple[CheckSection, ...])
    except ApiRefusal as error:
        sections = (CheckSection(title="mesh", checks=(_broken(error),)),)
    return (CheckSection(title="world", checks=_world_checks(running)), *sections)


def _world_checks(running: WorldVersion) -> tuple[Check, ...]:
    fact = f"world {running.world} answers, version {running.version}"
    mine = version("aether")
    if running.version == mine:
        return (Check(fact=fact),)
    advice = "`aether down`, then `aether up`, to run this one"
    return (Check(fact=fact, verdict=CheckVerdict.WARNING, why=f"this command is {mine}", advice=advice),)


def _broken(error: CliError) -> Check:
    advice = "look at world.log in the world's runtime directory"
    return Check(fact="the world can look at itself", verdict=CheckVerdict.FAILED, why=str(error), advice=advice)
