"""A pod's status as Kubernetes writes it, from what is known of its containers."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aether.adapters.objects.timestamps import format_time
from aether.adapters.pods.environment import PodPlace
from aether.adapters.pods.lifecycle import ContainerState, Life, Termination, phase_of
from aether.model.kube import Container, Pod

Json = dict[str, Any]


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod's runner knows. `init_states` and `states` are in the order of the pod's containers.

    `is_captured`: the sandbox and its capture are in place. `waiting_for` says what holds the pod back before that.
    """

    pod: Pod
    place: PodPlace
    started_at: float
    init_states: tuple[ContainerState, ...]
    states: tuple[ContainerState, ...]
    is_captured: bool = False
    waiting_for: str = ""


def render_status(view: PodView, *, now: float, before: Mapping[str, Any]) -> Json:
    """The status object. `before` is the one it replaces: a condition that stays keeps its transition time."""
    inits = list(zip(view.pod.spec.init_containers, view.init_states, strict=True))
    mains = list(zip(view.pod.spec.containers, view.states, strict=True))
    verdicts = _verdicts(view, inits, mains)
    return {
        "phase": pod_phase(view),
        "conditions": [_condition(name, verdict, now, before) for name, verdict in verdicts.items()],
        "hostIP": next(iter(view.place.node_addresses), ""),
        "hostIPs": [{"ip": address} for address in view.place.node_addresses],
        "podIP": next(iter(view.place.addresses), ""),
        "podIPs": [{"ip": address} for address in view.place.addresses],
        "startTime": format_time(view.started_at),
        "qosClass": "BestEffort",
        "initContainerStatuses": [_container(view, container, state) for container, state in inits],
        "containerStatuses": [_container(view, container, state) for container, state in mains],
    }


def pod_phase(view: PodView) -> str:
    inits = list(zip(view.pod.spec.init_containers, view.init_states, strict=True))
    return phase_of(
        [state for container, state in inits if not container.is_sidecar],
        view.states,
    )


_Verdict = tuple[bool, str, str]
"""Status, and reason and message of a condition that is False."""

_Pairs = Sequence[tuple[Container, ContainerState]]


def _verdicts(view: PodView, inits: _Pairs, mains: _Pairs) -> Mapping[str, _Verdict]:
    waiting_inits = [container.name for container, state in inits if not _is_through(container, state)]
    sidecars = [(container, state) for container, state in inits if container.is_sidecar]
    unready = [(container, state) for container, state in (*sidecars, *mains) if not state.is_ready]
    names = ", ".join(container.name for container, _ in unready)
    causes = "; ".join(f"{container.name}: {state.message}" for container, state in unready if state.message)
    if pod_phase(view) == "Succeeded":
        ready = (False, "PodCompleted", "")
    else:
        message = f"containers with unready status: [{names}]" + (f": {causes}" if causes else "")
        ready = (not unready, "ContainersNotReady", message)
    incomplete = f"containers with incomplete status: [{', '.join(waiting_inits)}]"
    return {
        "PodScheduled": (True, "", ""),
        "PodReadyToStartContainers": (view.is_captured, "SandboxNotReady", view.waiting_for),
        "Initialized": (not waiting_inits, "ContainersNotInitialized", incomplete),
        "ContainersReady": ready,
        "Ready": ready,
    }


def _is_through(container: Container, state: ContainerState) -> bool:
    if container.is_sidecar:
        return state.is_started
    return state.life is Life.ENDED and state.last is not None and state.last.exit_code == 0


def _condition(name: str, verdict: _Verdict, now: float, before: Mapping[str, Any]) -> Json:
    is_true, reason, message = verdict
    status = "True" if is_true else "False"
    same = [one for one in before.get("conditions", ()) if one["type"] == name and one["status"] == status]
    condition = {
        "type": name,
        "status": status,
        "lastTransitionTime": same[0]["lastTransitionTime"] if same else format_time(now),
    }
    return condition if is_true else {**condition, "reason": reason, "message": message}


def _container(view: PodView, container: Container, state: ContainerState) -> Json:
    return {
        "name": container.name,
        "image": "host",
        "imageID": "",
        "containerID": f"aether://{view.pod.meta.uid}/{container.name}/{state.restarts}",
        "ready": state.is_ready,
        "started": state.is_started,
        "restartCount": state.restarts,
        "state": _state(view, state),
        "lastState": {"terminated": _termination(state.last)} if _shows_last(state) and state.last is not None else {},
    }


def _shows_last(state: ContainerState) -> bool:
    return state.life is not Life.ENDED


def _state(view: PodView, state: ContainerState) -> Json:
    if state.life is Life.ENDED and state.last is not None:
        return {"terminated": _termination(state.last)}
    if state.life in {Life.RUNNING, Life.STOPPING}:
        return {"running": {"startedAt": format_time(state.started_at)}}
    default = "PodInitializing" if view.is_captured and view.pod.spec.init_containers else "ContainerCreating"
    message = state.message or view.waiting_for
    waiting = {"reason": state.reason or default}
    return {"waiting": {**waiting, "message": message} if message else waiting}


def _termination(last: Termination) -> Json:
    signal = {"signal": last.exit_code - 128} if last.exit_code > 128 else {}
    return {
        "exitCode": last.exit_code,
        **signal,
        "reason": last.reason,
        "message": last.message,
        "startedAt": format_time(last.started_at),
        "finishedAt": format_time(last.finished_at),
    }
