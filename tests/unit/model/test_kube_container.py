from typing import Any

import pytest

from aether.errors import Diagnostic
from aether.model.kube import (
    ConfigMapKey,
    Container,
    ContainerPort,
    EnvFrom,
    EnvVar,
    Exec,
    Grpc,
    HttpGet,
    Probe,
    Sleep,
    TcpSocket,
    VolumeMount,
)
from aether.model.kube_container import FIELD_PATHS, parse_container
from aether.model.kube_fields import Fields
from aether.model.ports import Transport

BARE = {"name": "main", "image": "host", "command": ["run"]}


def parsed(*, is_init: bool = False, **fields: Any) -> tuple[Container, list[str]]:
    problems: list[Diagnostic] = []
    container = parse_container(Fields({**BARE, **fields}, "c", problems), is_init=is_init)
    return container, [f"{problem.field}: {problem.message}" for problem in problems]


def good(**fields: Any) -> Container:
    container, problems = parsed(**fields)
    assert not problems
    return container


def test_a_bare_container() -> None:
    assert good() == Container(name="main", argv=("run",))


def test_command_and_args_are_one_line() -> None:
    assert good(args=["-v", "x"]).argv == ("run", "-v", "x")


def test_fields_that_mean_nothing_here_are_taken_silently() -> None:
    good(imagePullPolicy="Always", terminationMessagePath="/dev/null", stdin=True, tty=True)


def test_ports() -> None:
    ports = [{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}]
    assert good(ports=ports).ports == (
        ContainerPort(number=80, name="http"),
        ContainerPort(number=53, transport=Transport.UDP),
    )


def test_environment() -> None:
    container = good(
        envFrom=[{"configMapRef": {"name": "all", "optional": True}, "prefix": "P_"}],
        env=[
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": True}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']", "apiVersion": "v1"}}},
        ],
    )
    assert container.env_from == (EnvFrom(config_map="all", prefix="P_", is_optional=True),)
    assert container.env == (
        EnvVar(name="A", value="1"),
        EnvVar(name="B", from_config_map=ConfigMapKey(config_map="m", key="k", is_optional=True)),
        EnvVar(name="C", from_field="metadata.labels['app']"),
    )


@pytest.mark.parametrize("path", FIELD_PATHS)
def test_every_field_path_is_taken(path: str) -> None:
    good(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}])


def test_mounts() -> None:
    mounts = [{"name": "v", "mountPath": "/etc/app", "subPath": "a/b", "readOnly": True}]
    assert good(volumeMounts=mounts).mounts == (
        VolumeMount(volume="v", path="/etc/app", sub_path="a/b", is_read_only=True),
    )


CHECKS = [
    (
        {"httpGet": {"port": "http", "path": "/ok", "scheme": "HTTPS", "host": "10.0.0.1"}},
        HttpGet(port="http", path="/ok", host="10.0.0.1", is_tls=True),
    ),
    (
        {"httpGet": {"port": 80, "httpHeaders": [{"name": "X", "value": "y"}]}},
        HttpGet(port=80, headers=(("X", "y"),)),
    ),
    ({"tcpSocket": {"port": 80}}, TcpSocket(port=80)),
    ({"exec": {"command": ["true"]}}, Exec(command=("true",))),
    ({"grpc": {"port": 9000, "service": "s"}}, Grpc(port=9000, service="s")),
]


@pytest.mark.parametrize(("spelled", "check"), CHECKS)
def test_probes(spelled: dict[str, Any], check: Any) -> None:
    assert good(readinessProbe=spelled).readiness_probe == Probe(check=check)


def test_a_probes_numbers() -> None:
    numbers = {
        "initialDelaySeconds": 1,
        "periodSeconds": 2,
        "timeoutSeconds": 3,
        "successThreshold": 4,
        "failureThreshold": 5,
        "terminationGracePeriodSeconds": 6,
    }
    assert good(readinessProbe={"tcpSocket": {"port": 1}, **numbers}).readiness_probe == Probe(
        check=TcpSocket(port=1),
        initial_delay_s=1,
        period_s=2,
        timeout_s=3,
        success_threshold=4,
        failure_threshold=5,
        grace_s=6,
    )


def test_hooks() -> None:
    lifecycle = {"postStart": {"exec": {"command": ["hi"]}}, "preStop": {"sleep": {"seconds": 5}}}
    container = good(lifecycle=lifecycle)
    assert (container.post_start, container.pre_stop) == (Exec(command=("hi",)), Sleep(seconds=5))


def test_who_it_runs_as() -> None:
    assert good(securityContext={"runAsUser": 7}).run_as == (7, 7)
    assert good(securityContext={"runAsUser": 7, "runAsGroup": 8}).run_as == (7, 8)


def test_an_init_container_that_keeps_running_is_a_sidecar() -> None:
    assert good(is_init=True, restartPolicy="Always").is_sidecar
    assert not good(is_init=True).is_sidecar


WRONG = [
    ({"name": "Main"}, "c.name: 'Main' must be an RFC 1123 label of at most 63 bytes"),
    ({"restartPolicy": "Always"}, "c.restartPolicy: field 'restartPolicy' is not supported here and is ignored"),
    ({"workingDir": "here"}, "c.workingDir: 'here' must be an absolute path"),
    ({"ports": [{"containerPort": 80, "protocol": "SCTP"}]}, "c.ports[0].protocol: 'SCTP' must be one of TCP, UDP"),
    (
        {"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]},
        "c.ports[1].name: port name a is there twice",
    ),
    ({"envFrom": [{"secretRef": {"name": "s"}}]}, "c.envFrom[0]: must have configMapRef"),
    ({"env": [{"value": "x"}]}, "c.env[0].name: is missing"),
    ({"env": [{"name": "A=B"}]}, "c.env[0].name: 'A=B' must be a name without '='"),
    ({"env": [{"name": "A", "value": 7}]}, "c.env[0].value: must be text; write it in quotes"),
    (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        "c.env[0].valueFrom: must have one of configMapKeyRef and fieldRef",
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]},
        "c.env[0].valueFrom.fieldRef.fieldPath: 'status.phase' is not supported; known are metadata.name",
    ),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/"}]},
        "c.volumeMounts[0].mountPath: must be an absolute path below",
    ),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}]},
        "c.volumeMounts[0].subPath: must be a relative path without '..'",
    ),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a"}]},
        "c.volumeMounts[1].mountPath: mount path /a is there twice",
    ),
    ({"livenessProbe": {}}, "c.livenessProbe: must have one of httpGet, tcpSocket, exec, grpc"),
    (
        {"livenessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}},
        "c.livenessProbe: must have one of httpGet, tcpSocket, exec, grpc",
    ),
    ({"livenessProbe": {"exec": {}}}, "c.livenessProbe.exec.command: is missing"),
    (
        {"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}},
        "c.livenessProbe.successThreshold: 2 must be from 1 to 1",
    ),
    ({"livenessProbe": {"tcpSocket": {"port": 0}}}, "c.livenessProbe.tcpSocket.port: port 0 must be from 1 to 65535"),
    ({"lifecycle": {"preStop": {"grpc": {"port": 1}}}}, "c.lifecycle.preStop: must have one of httpGet, tcpSocket"),
    ({"lifecycle": {"stop": {}}}, "c.lifecycle.stop: field 'stop' is not supported here and is ignored"),
    ({"securityContext": {"privileged": True}}, "c.securityContext.privileged: field 'privileged' is not supported"),
]


@pytest.mark.parametrize(("fields", "expected"), WRONG, ids=[row[1] for row in WRONG])
def test_what_is_wrong(fields: dict[str, Any], expected: str) -> None:
    _, problems = parsed(**fields)
    assert problems[0].startswith(expected)
