from pathlib import Path

from aether.adapters.objects.user_state import read_state, write_state


def body(kind: str, name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def test_what_is_named_is_written_before_what_names_it() -> None:
    kinds = ["Pod", "Service", "Namespace", "ServiceAccount", "Unheard", "ConfigMap", "Deployment"]
    saved = read_state(write_state(7, [body(kind, "x") for kind in kinds]), Path("applied.json"))
    assert saved.revision == 7
    assert [one["kind"] for one in saved.objects] == [
        "Namespace",
        "ServiceAccount",
        "ConfigMap",
        "Service",
        "Deployment",
        "Pod",
        "Unheard",
    ]
