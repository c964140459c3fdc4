from typing import Any

import pytest

from aether.adapters.pods.environment import PodPlace
from aether.adapters.pods.lifecycle import ContainerState, Life, Termination
from aether.adapters.pods.status import PodView, render_status
from aether.model.kube import Container, Meta, Pod, PodSpec

NOW = 1_700_000_000.0
PLACE = PodPlace(addresses=("10.244.1.2", "fd00:244:1::2"), node_addresses=("10.243.0.1", "fd00:243::1"))
MAIN = Container(name="main", argv=("run",))
FIRST = Container(name="first", argv=("run",))
SIDE = Container(name="side", argv=("run",), is_sidecar=True)

FAILED = Termination(exit_code=3, reason="Error", message="exit status 3", started_at=NOW, finished_at=NOW + 1)
DONE = Termination(exit_code=0, reason="Completed", message="", started_at=NOW, finished_at=NOW + 1)
KILLED = Termination(exit_code=137, reason="Error", message="x", started_at=NOW, finished_at=NOW + 1)
WAITING = ContainerState()
RUNNING = ContainerState(life=Life.RUNNING, started_at=NOW, is_started=True, is_ready=True)
UNREADY = ContainerState(life=Life.RUNNING, started_at=NOW, is_started=True, message="readiness probe failed: refused")


def rendered(
    *states: ContainerState, init: dict[Container, ContainerState] | None = None, before: Any = None, **view: Any
) -> dict[str, Any]:
    inits = list((init or {}).items())
    mains = tuple(Container(name=f"{MAIN.name}-{number}", argv=("run",)) for number in range(len(states)))
    spec = PodSpec(containers=mains, init_containers=tuple(container for container, _ in inits))
    defaults = {"pod": Pod(meta=Meta(name="p", uid="u"), spec=spec), "place": PLACE, "started_at": NOW}
    return render_status(
        PodView(
            **{**defaults, "is_captured": True, **view},
            init_states=tuple(state for _, state in inits),
            states=states,
        ),
        now=NOW + 60,
        before=before or {},
    )


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in status["conditions"] if one["type"] == kind)
    return found


def test_a_running_pod() -> None:
    status = rendered(RUNNING)
    assert status["phase"] == "Running"
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "PodScheduled": "True",
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }
    assert (status["podIP"], status["hostIP"], status["startTime"]) == (
        "10.244.1.2",
        "10.243.0.1",
        "2023-11-14T22:13:20Z",
    )
    assert status["podIPs"] == [{"ip": "10.244.1.2"}, {"ip": "fd00:244:1::2"}]
    assert status["containerStatuses"] == [
        {
            "name": "main-0",
            "image": "host",
            "imageID": "",
            "containerID": "aether://u/main-0/0",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2023-11-14T22:13:20Z"}},
            "lastState": {},
        }
    ]


STATES = [
    ("not begun", WAITING, {"waiting": {"reason": "ContainerCreating"}}),
    (
        "without its ConfigMap",
        ContainerState(reason="CreateContainerConfigError", message='configmap "m" not found'),
        {"waiting": {"reason": "CreateContainerConfigError", "message": 'configmap "m" not found'}},
    ),
    ("starting", ContainerState(life=Life.STARTING), {"waiting": {"reason": "ContainerCreating"}}),
    (
        "backing off",
        ContainerState(life=Life.BACKING_OFF, reason="CrashLoopBackOff", message="back-off 10s", last=FAILED),
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
    ),
    ("running", RUNNING, {"running": {"startedAt": "2023-11-14T22:13:20Z"}}),
    (
        "stopping",
        ContainerState(life=Life.STOPPING, started_at=NOW),
        {"running": {"startedAt": "2023-11-14T22:13:20Z"}},
    ),
    (
        "ended",
        ContainerState(life=Life.ENDED, last=KILLED),
        {
            "terminated": {
                "exitCode": 137,
                "signal": 9,
                "reason": "Error",
                "message": "x",
                "startedAt": "2023-11-14T22:13:20Z",
                "finishedAt": "2023-11-14T22:13:21Z",
            }
        },
    ),
]


@pytest.mark.parametrize(("what", "state", "expected"), STATES, ids=[row[0] for row in STATES])
def test_a_containers_state(what: str, state: ContainerState, expected: dict[str, Any]) -> None:
    assert rendered(state)["containerStatuses"][0]["state"] == expected, what


def test_how_it_ended_last_time_is_shown_while_it_goes_on() -> None:
    again = ContainerState(life=Life.RUNNING, started_at=NOW, restarts=2, last=FAILED)
    (container,) = rendered(again)["containerStatuses"]
    assert container["restartCount"] == 2
    assert container["containerID"] == "aether://u/main-0/2"
    assert container["lastState"]["terminated"]["message"] == "exit status 3"
    (over,) = rendered(ContainerState(life=Life.ENDED, last=FAILED))["containerStatuses"]
    assert over["lastState"] == {}


def test_what_holds_a_pod_back_is_said() -> None:
    status = rendered(WAITING, is_captured=False, waiting_for="the pod's capture is not in place yet")
    assert condition(status, "PodReadyToStartContainers")["message"] == "the pod's capture is not in place yet"
    assert status["containerStatuses"][0]["state"] == {
        "waiting": {"reason": "ContainerCreating", "message": "the pod's capture is not in place yet"}
    }


def test_containers_wait_for_init_containers() -> None:
    status = rendered(WAITING, init={FIRST: RUNNING})
    assert status["phase"] == "Pending"
    assert condition(status, "Initialized")["message"] == "containers with incomplete status: [first]"
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    through = rendered(RUNNING, init={FIRST: ContainerState(life=Life.ENDED, last=DONE)})
    assert condition(through, "Initialized")["status"] == "True"


def test_a_sidecar_initialises_by_being_started_and_counts_for_readiness() -> None:
    unready = ContainerState(life=Life.RUNNING, started_at=NOW, is_started=True)
    status = rendered(RUNNING, init={SIDE: unready})
    assert status["phase"] == "Running"
    assert condition(status, "Initialized")["status"] == "True"
    assert condition(status, "Ready")["message"] == "containers with unready status: [side]"


def test_an_unready_container_says_why() -> None:
    ready = condition(rendered(RUNNING, UNREADY), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ContainersNotReady")
    assert ready["message"] == "containers with unready status: [main-1]: main-1: readiness probe failed: refused"


def test_a_pod_that_is_through_is_not_ready_and_not_at_fault() -> None:
    status = rendered(ContainerState(life=Life.ENDED, last=DONE))
    assert status["phase"] == "Succeeded"
    assert condition(status, "Ready")["reason"] == "PodCompleted"


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = rendered(UNREADY)
    assert condition(first, "Ready")["lastTransitionTime"] == "2023-11-14T22:14:20Z"
    old = {"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    assert (
        condition(rendered(UNREADY, before={"conditions": [old]}), "Ready")["lastTransitionTime"]
        == old["lastTransitionTime"]
    )
    assert (
        condition(rendered(RUNNING, before={"conditions": [old]}), "Ready")["lastTransitionTime"]
        == "2023-11-14T22:14:20Z"
    )
