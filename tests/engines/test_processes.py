"""A started program ends with its owner, whatever becomes of either."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weir.pipelines.engines import processes
from weir.pipelines.engines.processes import PORTS, EngineFailed, Process, free_ports

PARENT = """
import sys, time
from pathlib import Path
from weir.pipelines.engines.processes import Process
log, ready = map(Path, sys.argv[1:])
process = Process("a sleeper", ["sh", "-c", "sleep 1000 & echo $! $$; wait"], log)
ready.touch()
time.sleep(1000)
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def eventually(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_and_their_children_die_with_the_parent(
    number: signal.Signals, tmp_path: Path
) -> None:
    log, ready = tmp_path / "log", tmp_path / "ready"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(log), str(ready)])
    assert eventually(lambda: ready.exists() and len(log.read_text().split()) == 2)
    pids = [int(word) for word in log.read_text().split()]
    assert all(alive(pid) for pid in pids)
    parent.send_signal(number)
    parent.wait(20)
    assert eventually(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.slow
def test_stop_ends_the_whole_group_even_if_it_will_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "trap '' TERM; (trap '' TERM; sleep 1000) & echo $!; sleep 1000"
    process = Process("stubborn", ["sh", "-c", script], log)
    assert eventually(lambda: bool(log.read_text().strip()))
    child = int(log.read_text())
    process.stop(0.2)
    assert not process.alive
    assert eventually(lambda: not alive(child))
    process.stop()  # a second time is nothing


@pytest.mark.slow
def test_kill_leaves_what_the_program_started_and_stop_takes_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = Process("crashing", ["sh", "-c", "sleep 1000 & echo $!; wait"], log)
    assert eventually(lambda: bool(log.read_text().strip()))
    child = int(log.read_text())
    process.kill()
    assert not process.alive and alive(child)
    process.stop()
    assert eventually(lambda: not alive(child))


def test_a_program_that_ends_too_early_shows_its_log(tmp_path: Path) -> None:
    process = Process("brief", ["sh", "-c", "echo port taken; exit 3"], tmp_path / "log")
    with pytest.raises(EngineFailed, match=r"brief ended with exit code 3 before .*\n  port taken"):
        process.wait_until(lambda: None, 20, "listening")
    process.stop()


def test_a_program_that_is_never_ready_meets_its_deadline(tmp_path: Path) -> None:
    process = Process("idle", ["sleep", "1000"], tmp_path / "log")
    with pytest.raises(EngineFailed, match="idle: listening took more than 0 s"):
        process.wait_until(lambda: False, 0.1, "listening")
    process.stop()
    assert not process.alive


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="ghost cannot be started"):
        Process("ghost", [str(tmp_path / "ghost")], tmp_path / "log")


def test_free_ports_differ_and_none_is_given_to_a_connection() -> None:
    ports = free_ports(20) + free_ports(20)
    assert len(set(ports)) == 40 and set(ports) <= set(PORTS)
    settings = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if settings.exists():
        assert max(PORTS) < int(settings.read_text().split()[0])


def test_a_port_that_is_listened_on_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(processes, "PORTS", range(port, port + 1))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        with pytest.raises(EngineFailed, match="fewer than 1 are free"):
            free_ports(1)
    assert free_ports(1) == [port]


def test_the_group_is_the_programs_own(tmp_path: Path) -> None:
    process = Process("apart", ["sleep", "1000"], tmp_path / "log")
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
    process.stop()


@pytest.mark.slow
def test_nothing_is_started_by_a_parent_that_dies_before_the_guard_knows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = PARENT.replace(
        "log, ready = ",
        "import os\nfrom weir.pipelines.engines import processes\n"
        "processes.GUARD.watch = lambda group: os.kill(os.getpid(), 9)\nlog, ready = ",
    )
    subprocess.run([sys.executable, "-c", script, str(log), str(tmp_path / "ready")], timeout=60)
    assert not (tmp_path / "ready").exists(), "the parent lived"
    time.sleep(0.5)
    assert log.read_text() == ""
