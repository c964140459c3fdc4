"""System calls and their errors, as far as any user may see them."""

import errno
from pathlib import Path

import pytest

from aether.adapters.kernel import syscall
from aether.adapters.kernel.syscall import KernelError


def test_a_refused_call_says_which_and_why(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=f"umount {tmp_path}: ") as refused:
        syscall.umount(str(tmp_path))
    assert refused.value.errno in (errno.EPERM, errno.EINVAL)
    assert refused.value.code == "kernel"


def test_a_mount_that_cannot_be_names_kind_and_place(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=f"mount nosuchfs at {tmp_path}: "):
        syscall.mount("none", str(tmp_path), kind="nosuchfs")


def test_a_file_that_is_no_namespace_cannot_be_entered(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, pytest.raises(KernelError, match=r"setns\(0x40000000\)"):
        syscall.setns(file.fileno(), syscall.CLONE_NEWNET)


def test_unknown_flags_are_refused() -> None:
    with pytest.raises(KernelError, match="unshare"):
        syscall.unshare(1)


def test_a_process_may_outlive_its_parent_again() -> None:
    syscall.die_with_parent(0)
