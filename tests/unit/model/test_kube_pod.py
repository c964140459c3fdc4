from typing import Any

import pytest

from aether.errors import Diagnostic
from aether.model.kube import Container, PodSpec, Volume
from aether.model.kube_fields import Fields
from aether.model.kube_pod import read_pod, read_pod_spec, read_template

MAIN = {"name": "main", "image": "host", "command": ["run"]}
CONTAINER = Container(name="main", argv=("run",))


def parsed(**fields: Any) -> tuple[PodSpec, list[str]]:
    problems: list[Diagnostic] = []
    spec = read_pod_spec(Fields({"containers": [MAIN], **fields}, "spec", problems))
    return spec, [f"{problem.field}: {problem.message}" for problem in problems]


def good(**fields: Any) -> PodSpec:
    spec, problems = parsed(**fields)
    assert not problems
    return spec


def test_a_bare_pod_has_kubernetes_defaults() -> None:
    assert good() == PodSpec(containers=(CONTAINER,))
    assert good().restart_policy == "Always"
    assert good().grace_s == 30
    assert good().account == "default"


def test_everything_that_is_read() -> None:
    spec = good(
        initContainers=[{**MAIN, "name": "first"}],
        serviceAccountName="cart",
        restartPolicy="Never",
        terminationGracePeriodSeconds=5,
        nodeName="node-1",
        nodeSelector={"kubernetes.io/hostname": "node-1"},
        hostname="me",
        subdomain="us",
        dnsPolicy="Default",
        hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
        enableServiceLinks=False,
    )
    assert spec == PodSpec(
        containers=(CONTAINER,),
        init_containers=(Container(name="first", argv=("run",)),),
        account="cart",
        restart_policy="Never",
        grace_s=5,
        node="node-1",
        node_selector=(("kubernetes.io/hostname", "node-1"),),
        hostname="me",
        subdomain="us",
        dns_policy="Default",
        host_aliases=(("10.0.0.1", ("a", "b")),),
    )


def test_the_old_name_of_the_account_is_read_too() -> None:
    assert good(serviceAccount="cart").account == "cart"
    assert good(serviceAccount="old", serviceAccountName="new").account == "new"


def test_volumes() -> None:
    source = {"name": "m", "items": [{"key": "k", "path": "p/q"}], "defaultMode": 256, "optional": True}
    assert good(volumes=[{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": source}]).volumes == (
        Volume(name="e"),
        Volume(name="c", config_map="m", items=(("k", "p/q"),), mode=256, is_optional=True),
    )


def test_a_mount_names_a_volume_of_the_pod() -> None:
    main = {**MAIN, "volumeMounts": [{"name": "e", "mountPath": "/e"}]}
    assert good(volumes=[{"name": "e", "emptyDir": {}}], containers=[main]).containers[0].mounts[0].volume == "e"


def test_who_the_pod_runs_as_holds_for_containers_that_do_not_say() -> None:
    other = {**MAIN, "name": "other", "securityContext": {"runAsUser": 9}}
    spec = good(securityContext={"runAsUser": 7}, containers=[MAIN, other])
    assert [container.run_as for container in spec.containers] == [(7, 7), (9, 9)]


WRONG = [
    ({"containers": []}, "spec.containers: is missing: a pod has at least one container"),
    ({"containers": [MAIN, MAIN]}, "spec.containers[1].name: container main is there twice"),
    ({"initContainers": [MAIN]}, "spec.containers[0].name: container main is there twice"),
    ({"restartPolicy": "Sometimes"}, "spec.restartPolicy: 'Sometimes' must be one of Always, OnFailure, Never"),
    ({"terminationGracePeriodSeconds": -1}, "spec.terminationGracePeriodSeconds: -1 must be from 0 to 2147483647"),
    ({"hostNetwork": True}, "spec.hostNetwork: is not supported: every pod has namespaces of its own"),
    (
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        "spec.volumes[0]: must have configMap or emptyDir (found hostPath)",
    ),
    ({"volumes": [{"name": "v"}]}, "spec.volumes[0]: must have configMap or emptyDir (found none)"),
    ({"volumes": [{"name": "v", "configMap": {}}]}, "spec.volumes[0].configMap.name: is missing"),
    (
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]},
        "spec.volumes[1].name: volume v is there twice",
    ),
    (
        {"containers": [{**MAIN, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
        "spec.containers[0].volumeMounts[0].name: the pod has no volume 'v'",
    ),
    ({"hostname": "A"}, "spec.hostname: 'A' must be an RFC 1123 label"),
    ({"tolerations": []}, "spec.tolerations: field 'tolerations' is not supported here and is ignored"),
]


@pytest.mark.parametrize(("fields", "expected"), WRONG, ids=[row[1] for row in WRONG])
def test_what_is_wrong(fields: dict[str, Any], expected: str) -> None:
    assert parsed(**fields)[1] == [expected]


def test_a_pods_status_is_what_its_runner_last_said() -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}]
    status = {"phase": "Running", "conditions": conditions, "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}
    pod = read_pod(Fields({"metadata": {"name": "p"}, "spec": {"containers": [MAIN]}, "status": status}, "", []))
    assert (pod.phase, pod.is_ready, pod.addresses) == ("Running", True, ("10.0.0.1", "fd00::1"))
    unready = read_pod(Fields({"metadata": {"name": "p"}, "spec": {"containers": [MAIN]}}, "", []))
    assert (unready.phase, unready.is_ready, unready.addresses) == ("Pending", False, ())


def test_a_template_has_labels_annotations_and_a_spec() -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "creationTimestamp": None}
    problems: list[Diagnostic] = []
    template = read_template(Fields({"metadata": metadata, "spec": {"containers": [MAIN]}}, "t", problems))
    assert not problems
    assert (template.labels, template.annotations) == ((("a", "b"),), (("c", "d"),))
    assert template.spec.containers == (CONTAINER,)
