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


async def started(folder: Path, name: str, *argv: str, **fields: Any) -> dict[str, Any]:
    place = folder / name
    (place / "staging").mkdir(parents=True)
    (place / "conf").mkdir()
    (place / "conf" / "key").write_text("text\n")
    order = ContainerOrder(
        argv=argv,
        env=ENV,
        log=str(place / "log"),
        log_limit_bytes=1 << 20,
        hostname="me",
        staging=str(place / "staging"),
        mounts=(Mount(source=str(place / "conf"), target="/no-such-place/conf"),),
        **fields,
    )
    process = start_container(order)
    try:
        await process.wait_started()
    except CannotStart as error:
        return {"error": str(error)}
    return {"code": await process.wait(), "log": (place / "log").read_text().split()}


async def main(folder: Path) -> None:
    script = "hostname; cat /no-such-place/conf/key; ls /proc | grep -cx 1; exit 3"
    told = {
        "started": await started(folder, "started", "sh", "-c", script),
        "missing": await started(folder, "missing", "foo"),
        "other-user": await started(folder, "other-user", "true", run_as=(1000, 1000)),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
