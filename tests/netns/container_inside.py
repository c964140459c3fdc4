"""Starts containers and tells what became of them: run as root, and in a user namespace with one user.

python -m tests.netns.container_inside FOLDER
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from aether.adapters.pods.launcher import CannotStart, ContainerOrder, Mount, start_container

ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def prepared(folder: Path, name: str, *argv: str, **fields: Any) -> ContainerOrder:
    place = folder / name
    (place / "staging").mkdir(parents=True)
    (place / "conf").mkdir()
    (place / "conf" / "key").write_text("text\n")
    return ContainerOrder(
        argv=argv,
        env=ENV,
        log=str(place / "log"),
        log_limit_bytes=1 << 20,
        hostname="me",
        staging=str(place / "staging"),
        mounts=(Mount(source=str(place / "conf"), target="/no-such-place/conf"),),
        **fields,
    )


async def started(order: ContainerOrder) -> dict[str, Any]:
    process = start_container(order)
    try:
        await process.wait_started()
    except CannotStart as error:
        return {"error": str(error)}
    code = await process.wait()
    return {"code": code, "log": read(order.log).split()}


def read(path: str) -> str:
    return Path(path).read_text()


async def stay(folder: Path) -> None:
    process = start_container(prepared(folder, "stays", "sleep", "1000"))
    await process.wait_started()
    sys.stdout.write(f"{process.init}\n")
    sys.stdout.flush()
    await process.wait()


async def main(folder: Path) -> None:
    script = "hostname; cat /no-such-place/conf/key; ls /proc | grep -cx 1; exit 3"
    told = {
        "started": await started(prepared(folder, "started", "sh", "-c", script)),
        "missing": await started(prepared(folder, "missing", "foo")),
        "other-user": await started(prepared(folder, "other-user", "true", run_as=(1000, 1000))),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run((stay if "--stay" in sys.argv else main)(Path(sys.argv[1])))
