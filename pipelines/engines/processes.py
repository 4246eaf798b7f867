"""Processes of engines: started, guarded, stopped, and the folder that they work in."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

from weir.dpcore.errors import WeirError

_PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    sign, group = line[0], int(line[1:])
    groups.add(group) if sign == "+" else groups.discard(group)
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class ProcessGuard:
    """Owner's side of the pipe; started with the first group."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def watch(self, group: int) -> None:
        """From here on the group dies with this process."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group has ended: its number may be given to others."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _PROGRAM],
                    stdin=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
                self._owner = os.getpid()
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except BrokenPipeError:  # somebody killed the guard: the next one is told again
                self._process = None


GUARD = ProcessGuard()


LOCK = ".lock"


class Workplace:
    """A temporary folder of this process.

    Args:
      prefix: of its name; ``sweep`` finds those of killed processes by it.
    """

    def __init__(self, prefix: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock: TextIO = (self.folder / LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Removes it, with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def sweep(prefix: str) -> list[Path]:
    """Removes this user's folders of a prefix whose owners are gone; returns which.

    A folder without a lock file is left alone: it may be younger than its lock, or not ours.
    """
    gone = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{prefix}*")):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                gone.append(folder)
    return gone


T = TypeVar("T")

TAIL = 2000
"""Characters of a log that an error shows. Only programs that never saw an event are quoted."""


_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@" < /dev/null', "gate")
"""Starts a program only when this process says so, after it has told the guard: however it dies in
between, the pipe closes and nothing was started."""


class EngineFailed(WeirError):
    """A program did not start, or is gone."""


class Process:
    """A program in a process group of its own, which ends with this process at the latest.

    Args:
      name: for errors.
      command: program and arguments.
      log: file that stdout and stderr are appended to.
      environment: added to this process's own.
      folder: working folder.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        if shutil.which(command[0]) is None:
            raise EngineFailed(f"{name} cannot be started: there is no program {command[0]}.")
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*_GATE, *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=folder,
                start_new_session=True,
            )
        gate = self._process.stdin
        assert gate is not None
        with gate, contextlib.suppress(BrokenPipeError):
            GUARD.watch(self.pid)
            gate.write(b"\n")
        self._over = False
        _LIVING.add(self)

    @property
    def pid(self) -> int:
        """Of the program, and of its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, ready: Callable[[], T | None], seconds: float, what: str) -> T:
        """Asks until the answer is neither None nor False, and returns it.

        Raises:
          EngineFailed: the program ended, or the time is over; the log's end is in the text.
        """
        deadline = time.monotonic() + seconds
        while True:
            answer = ready()
            if answer is not None and answer is not False:
                return answer
            if not self.alive:
                raise EngineFailed(
                    f"{self.name} ended with exit code {self._process.returncode} before {what}; "
                    f"log {self.log}:\n{self._tail()}"
                )
            if time.monotonic() > deadline:
                raise EngineFailed(
                    f"{self.name}: {what} took more than {seconds:.0f} s; "
                    f"log {self.log}:\n{self._tail()}"
                )
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL to the program alone, as a machine's failure would; what it started lives on."""
        if self.alive:
            self._process.kill()
        self._process.wait()

    def stop(self, seconds: float = 10.0) -> None:
        """SIGTERM to the whole group, SIGKILL after ``seconds``; returns when the group is gone."""
        if self._over:
            return
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while self._living() and time.monotonic() < deadline:
            time.sleep(0.02)
        self._signal(signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + seconds
        while self._living() and time.monotonic() < deadline:
            time.sleep(0.01)
        self._over = True
        GUARD.forget(self.pid)
        _LIVING.discard(self)

    def _living(self) -> bool:
        """Whether anything is left of the group."""
        self._process.poll()
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _tail(self) -> str:
        try:
            text = self.log.read_bytes()[-TAIL:].decode(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(f"  {line}" for line in text.strip().splitlines())


_LIVING: weakref.WeakSet[Process] = weakref.WeakSet()
_OWNER = os.getpid()


@atexit.register
def _stop_all() -> None:
    """Ends what is still there when this process ends by itself; a fork of it stops nothing."""
    if os.getpid() == _OWNER:
        for process in list(_LIVING):
            process.stop(3.0)


PORTS = range(20_000, 32_768)
"""Below those from which systems take the near end of a connection: such a port may be gone before
a program that takes seconds to start listens on it."""
_TRIED = itertools.count()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now, all different, others at every call.

    Raises:
      EngineFailed: there are not so many.
    """
    free: list[int] = []
    for number in itertools.islice(_TRIED, len(PORTS)):
        # Processes of neighbouring numbers begin apart.
        port = PORTS[(os.getpid() * 97 + number) % len(PORTS)]
        with socket.socket() as item, contextlib.suppress(OSError):
            item.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) == count:
            return free
    raise EngineFailed(f"of ports {PORTS[0]} to {PORTS[-1]} fewer than {count} are free")
