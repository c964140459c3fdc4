import msgspec
from tests.support.memoryworld import ServedWorld, ask


def test_the_agent_says_what_it_holds(served: ServedWorld) -> None:
    socket_path = served.paths.node("node-1").agent_socket
    assert ask(socket_path, "GET", "/status")[1]["node"] == "node-1"
    assert ask(socket_path, "GET", "/scope")[1]["directory"] == 3
    assert ask(socket_path, "GET", "/resources")[1] == [{"type_url": "type.x/Cluster", "name": "cart", "version": "0a"}]


def test_one_resource_is_printed_and_a_missing_one_is_a_problem(served: ServedWorld) -> None:
    socket_path = served.paths.node("node-1").agent_socket
    assert ask(socket_path, "GET", "/resources/one?type_url=type.x/Cluster&name=cart") == (200, {"name": "cart"})
    status, problem = ask(socket_path, "GET", "/resources/one?type_url=type.x/Cluster&name=web")
    assert (status, problem["code"]) == (404, "no-such-resource")


def test_the_agent_explains(served: ServedWorld) -> None:
    body = msgspec.json.encode({"namespace": "shop", "pod": "cart-1", "target": "web:80"})
    _, answer = ask(served.paths.node("node-1").agent_socket, "POST", "/explain", body)
    assert answer["outcome"] == "deliver"
