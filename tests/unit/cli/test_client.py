import os
import socket
import threading
from pathlib import Path

import pytest

from aether.cli.client import ApiClient, path_of
from aether.cli.failure import ApiRefusal, CliError, NoWorld


def answering(path: Path, answer: bytes) -> threading.Thread:
    """A server that gives every first request this answer, and closes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        with listener:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def http(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def test_an_answer_is_decoded_as_what_was_expected(tmp_path: Path) -> None:
    thread = answering(tmp_path / "api.sock", http("200 OK", b'{"a":1}'))
    assert ApiClient(tmp_path / "api.sock").get("/v1/x", reply=dict[str, int]) == {"a": 1}
    thread.join()


def test_a_problem_becomes_an_error_with_its_code_and_diagnostics(tmp_path: Path) -> None:
    body = b'{"code":"rejected","detail":"no","status":422,"diagnostics":[{"code":"bad-port","message":"x"}]}'
    thread = answering(tmp_path / "api.sock", http("422 No", body))
    with pytest.raises(ApiRefusal) as refused:
        ApiClient(tmp_path / "api.sock").get("/v1/x", reply=str)
    assert (refused.value.problem_code, refused.value.status) == ("rejected", 422)
    assert refused.value.diagnostics[0].code == "bad-port"
    thread.join()


def test_an_answer_of_another_version_points_at_the_versions(tmp_path: Path) -> None:
    thread = answering(tmp_path / "api.sock", http("200 OK", b'["what"]'))
    with pytest.raises(CliError, match="not understood") as error:
        ApiClient(tmp_path / "api.sock").get("/v1/x", reply=dict[str, int])
    assert "aether version" in error.value.advice
    thread.join()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", http("500 x", b"<html>")])
def test_an_answer_that_breaks_off_or_is_no_answer_is_said_so(tmp_path: Path, answer: bytes) -> None:
    thread = answering(tmp_path / "api.sock", answer)
    with pytest.raises(CliError):
        ApiClient(tmp_path / "api.sock").get("/v1/x", reply=str)
    thread.join()


def test_a_world_that_hangs_is_given_up_after_the_timeout(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "api.sock"))
        listener.listen()
        with pytest.raises(CliError, match="did not answer within"):
            ApiClient(tmp_path / "api.sock", timeout_s=0.05).get("/v1/x", reply=str)


def test_a_missing_a_stale_and_a_too_long_socket_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NoWorld, match="is running"):
        ApiClient(tmp_path / "api.sock").get("/v1/x", reply=str)
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / "api.sock"))
    with pytest.raises(NoWorld, match="has ended"):
        ApiClient(tmp_path / "api.sock").get("/v1/x", reply=str)
    with pytest.raises(NoWorld, match="too long"):
        ApiClient(tmp_path / ("x" * 120) / "api.sock").get("/v1/x", reply=str)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_socket_of_somebody_else_is_permission_denied(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "api.sock"))
    listener.listen()
    (tmp_path / "api.sock").chmod(0o600)
    os.seteuid(65534)
    try:
        with pytest.raises(NoWorld, match="permission denied"):
            ApiClient(tmp_path / "api.sock").get("/v1/x", reply=str)
    finally:
        os.seteuid(0)
        listener.close()


def test_the_segments_of_a_path_are_quoted() -> None:
    assert path_of("objects", "pods", "a/b", "c d?") == "/v1/objects/pods/a%2Fb/c%20d%3F"
