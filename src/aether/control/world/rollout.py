"""How a Deployment's pods come to be what it says: which to make and which to end, now.

Follows Kubernetes' rolling update: never more than `replicas + maxSurge` pods, never fewer than `replicas -
maxUnavailable` available ones, pods of an old template that are not available go first. There are no ReplicaSets: what
template a pod is of is told by its hash label. Pods that are being deleted do not count.
"""

from collections.abc import Sequence

import msgspec

from aether.model.kube import Deployment


class RolloutPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of the Deployment. `born` orders pods by age (greater is younger)."""

    name: str
    is_new: bool
    is_ready: bool
    is_available: bool
    is_terminating: bool = False
    born: str = ""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods of the new template to make, and the names of those to end."""

    create: int = 0
    delete: tuple[str, ...] = ()


def plan_rollout(deployment: Deployment, pods: Sequence[RolloutPod]) -> Rollout:
    """The next step: nothing when the Deployment is as it says, is paused, or must wait for pods to be available."""
    if deployment.is_paused:
        return Rollout()
    live = [pod for pod in pods if not pod.is_terminating]
    new = sorted((pod for pod in live if pod.is_new), key=_worth)
    old = sorted((pod for pod in live if not pod.is_new), key=_worth)
    if deployment.is_recreate:
        return _recreate(deployment, new, old, is_waiting=len(live) < len(pods))
    surge, unavailable = _allowances(deployment)
    total = len(live)
    create = max(0, min(deployment.replicas - len(new), deployment.replicas + surge - total))
    delete = [pod.name for pod in new[: max(0, len(new) - deployment.replicas)]]
    delete += _ending_old(deployment.replicas - unavailable, total, new, old)
    return Rollout(create=create, delete=tuple(delete))


def share_of(share: int | str, replicas: int, *, rounds_up: bool) -> int:
    """A number of pods: `share` itself, or that percentage of `replicas`."""
    if isinstance(share, int):
        return share
    hundredfold = replicas * int(share.rstrip("%"))
    return -(-hundredfold // 100) if rounds_up else hundredfold // 100


def _allowances(deployment: Deployment) -> tuple[int, int]:
    surge = share_of(deployment.max_surge, deployment.replicas, rounds_up=True)
    unavailable = share_of(deployment.max_unavailable, deployment.replicas, rounds_up=False)
    if surge == 0 and unavailable == 0:
        return 0, 1  # both rounded to nothing: a rollout must be able to move (Kubernetes: ResolveFenceposts)
    return surge, unavailable


def _worth(pod: RolloutPod) -> tuple[bool, bool, str, str]:
    """What to end first comes first: not available, not ready, younger."""
    younger_first = "".join(chr(0x10FFFF - ord(letter)) for letter in pod.born)
    return pod.is_available, pod.is_ready, younger_first, pod.name


def _recreate(
    deployment: Deployment, new: Sequence[RolloutPod], old: Sequence[RolloutPod], *, is_waiting: bool
) -> Rollout:
    if old:
        return Rollout(delete=tuple(pod.name for pod in old))
    surplus = len(new) - deployment.replicas
    if surplus > 0:
        return Rollout(delete=tuple(pod.name for pod in new[:surplus]))
    return Rollout(create=0 if is_waiting and not new else -surplus)


def _ending_old(min_available: int, total: int, new: Sequence[RolloutPod], old: Sequence[RolloutPod]) -> Sequence[str]:
    """The old pods that can go: first those that are of no use anyway, then as many as are not needed any more."""
    new_unavailable = sum(1 for pod in new if not pod.is_available)
    room = max(0, total - min_available - new_unavailable)
    broken = [pod for pod in old if not pod.is_available][:room]
    available = sum(1 for pod in (*new, *old) if pod.is_available)
    spare = max(0, min(available - min_available, room - len(broken)))
    working = [pod for pod in old if pod.is_available][:spare]
    return [pod.name for pod in (*broken, *working)]
