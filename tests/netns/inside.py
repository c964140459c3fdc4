"""The command of a test's world: a fabric, a node, a captured pod with a transparent listener, and one dial of the pod.

    python -m tests.netns.inside FOLDER [--stay]

Prints whom the dial was for, as the listener sees it; with --stay, lives on until it is killed.
"""

import signal
import socket
import subprocess
import sys
from pathlib import Path

from aether.adapters.kernel import links
from aether.adapters.kernel.netns import netns_command, socket_in
from aether.adapters.kernel.nft import Nft
from aether.plan.capture import CapturePlan, MeshSets
from aether.plan.routing import RoutingPlan
from aether.render.nft import render_capture, render_routing

ADDRESSES = ("10.244.1.2", "fd00:244:1::2")
DIALLED = ("10.96.0.5", 8080)
_IP_TRANSPARENT = 19


def main(folder: str, *options: str) -> None:
    node, pod = Path(folder, "node-1"), Path(folder, "pod-1")
    links.build_fabric()
    links.add_node(1, node)
    links.add_pod(node, pod, "1", ADDRESSES, sources=links.node_addresses(1))
    plan = CapturePlan(captures_all=True, sets=MeshSets(mesh4=frozenset({DIALLED[0]})))
    with Nft(pod) as capture, Nft(node) as routing:
        capture.apply(render_capture(plan))
        routing.apply(render_routing(RoutingPlan(refused=("10.96.0.0/16", "fd96::/112"))))
    with socket_in(pod, socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_IP, _IP_TRANSPARENT, 1)
        listener.bind(("0.0.0.0", 18001))
        listener.listen()
        with socket_in(pod, socket.AF_INET, socket.SOCK_STREAM) as client:
            client.connect(DIALLED)
            with listener.accept()[0] as accepted:
                address, port = accepted.getsockname()
        with socket_in(pod, socket.AF_INET, socket.SOCK_STREAM) as well_known:
            well_known.bind(("0.0.0.0", 80))
    if "--stay" in options:
        subprocess.Popen(netns_command(pod, ("sleep", "1000")), start_new_session=True)
    sys.stdout.write(f"{address} {port}\n")
    sys.stdout.flush()
    if "--stay" in options:
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
