"""A program that spawns a world and waits for it: what `aether up` is to its world.

    python -m tests.netns.spawner FOLDER [--detach] COMMAND…

Prints "pid" and the number of the world's PID 1, then ends with the world's status; with --detach, at once.
"""

import sys
from pathlib import Path

from aether.adapters.kernel.world import WorldRefused, spawn_world, wait_world


def main(folder: str, *rest: str) -> int:
    is_detached = rest[0] == "--detach"
    argv = rest[1:] if is_detached else rest
    try:
        pid = spawn_world(argv, name="test", netns_dir=Path(folder), detach=is_detached)
    except WorldRefused as refused:
        sys.stderr.write(f"{refused.diagnostic.code}: {refused}\n")
        return 2
    sys.stdout.write(f"pid {pid}\n")
    sys.stdout.flush()
    return 0 if is_detached else wait_world(pid)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
