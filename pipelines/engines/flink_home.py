"""Flink's own libraries: what a JobManager and TaskManagers run from.

They come from the Python package index, checked by hash: the package holds every jar of Flink's
binary distribution, and no scripts; ``flink`` in this package starts the JVMs itself.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

from weir.pipelines.engines.cache import Component
from weir.pipelines.engines.tools import need, run

VERSION = "1.19.3"
ARCHIVE = f"apache-flink-libraries-{VERSION}"
SHA256 = "4a58e3a1fb7d83340bc96b6c080624c6d792d69fae5d294b96224775204a9c60"

UNUSED = ("flink-table", "flink-scala", "flink-cep", "flink-sql")
"""Jars of Flink's own languages, which a Beam job never loads."""


def _make(folder: Path) -> None:
    need("java", "running Flink")
    build = folder / "build"
    build.mkdir()
    wanted = build / "wanted.txt"
    wanted.write_text(f"apache-flink-libraries=={VERSION} --hash=sha256:{SHA256}\n")
    run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download"),
            *("--no-deps", "--no-binary", ":all:", "--require-hashes", "--progress-bar", "off"),
            *("--dest", str(build), "--requirement", str(wanted)),
        ],
        "flink: pip download",
        build,
    )
    with tarfile.open(build / f"{ARCHIVE}.tar.gz") as archive:
        # Early releases of Python 3.11 know no filter; the archive is the one that the hash names.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(build, **safe)  # type: ignore[arg-type]
    for name in ("lib", "opt", "licenses"):
        (build / ARCHIVE / "deps" / name).rename(folder / name)
    for name in ("LICENSE", "NOTICE"):
        (build / ARCHIVE / name).rename(folder / name)
    for jar in (folder / "lib").glob("*.jar"):
        if jar.name.startswith(UNUSED):
            jar.unlink()
    shutil.rmtree(build)


COMPONENT = Component("flink", "flink", VERSION, f"lib/flink-dist-{VERSION}.jar", _make)


def home() -> Path:
    """The folder that holds ``lib``.

    Raises:
      EngineMissing: Flink is not in the cache.
    """
    return COMPONENT.located().parents[1]
