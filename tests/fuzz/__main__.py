"""Coverage-guided fuzzing of every reader of bytes: ``make fuzz``.

``python -m tests.fuzz [TARGET ...] --seconds 120`` runs Atheris on each target, keeps inputs that
reach new code in ``corpus/``, and prints a summary. A failing input is written to a file, with the
command that replays it; what is replayed needs no Atheris. Atheris sees branches of Python alone:
kernels in C and Arrow are run by every input, and guide it by what becomes of records only.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import target as fuzz

CRASHES = Path("build/fuzz")
KEPT_INPUTS, KEPT_BYTES = 60, 24_000
"""Of a target, in its file of the corpus at most."""
CHILD = "--child"
INSTRUMENTED = [
    *(f"weir.transforms.{name}" for name in ("decode", "formats", "operators", "runtime", "sinks")),
    *("weir.transforms.sources", "weir.transforms.beam.pubsub.messages", "weir.dpcore.config"),
    *(f"weir.pipelines.{name}" for name in ("config", "ledger", "results", "sources", "verify")),
    *("weir.pipelines.engines.flink", "weir.pipelines.estimates", "weir.pipelines.runners.ending"),
    *("weir.pipelines.run.new_folder", "weir.pipelines.show.findings"),
]
"""Packages whose branches guide the search. All of Weir would take a minute to load."""


def child(name: str, options: Sequence[str]) -> None:
    """Runs Atheris in this process; it ends the process."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.targets import TARGETS
    check = TARGETS[name]().check
    atheris.Setup([sys.argv[0], *options], check)
    atheris.Fuzz()


def run(name: str, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Atheris in another process, which a fault ends."""
    command = [sys.executable, "-m", "tests.fuzz", CHILD, name, *options]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def written(folder: Path, inputs: Sequence[bytes]) -> Path:
    """A folder of inputs, a file each."""
    folder.mkdir()
    for data in inputs:
        (folder / fuzz.digest(data)).write_bytes(data)
    return folder


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def search(name: str, seconds: int) -> str:
    """Fuzzes one target; returns a line of the summary."""
    from tests.fuzz.targets import TARGETS

    made = TARGETS[name]()
    seeds, start = [*made.seeds()], time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        known = written(here / "seeds", seeds)
        grown = written(here / "grown", fuzz.read_corpus(name))
        words = here / "words"
        words.write_text("".join(f'"{_escaped(one)}"\n' for one in made.words))
        CRASHES.mkdir(parents=True, exist_ok=True)
        limits = [f"-max_total_time={seconds}", f"-max_len={fuzz.INPUT_BYTES}", "-timeout=60"]
        if made.words:
            limits.append(f"-dict={words}")
        limits += [f"-artifact_prefix={CRASHES}/{name}-", "-rss_limit_mb=4096"]
        done = run(name, [str(grown), str(known), *limits, "-print_final_stats=1"])
        report = done.stdout + done.stderr
        if done.returncode:
            paths = re.findall(r"Test unit written to (\S+)", report)
            text = re.findall(
                r"^(?:\S*Fault|\S*Error|\S*Exception|==\d+== ?ERROR).*$", report, re.M
            )
            how = f"python -m tests.fuzz --replay {name} {paths[-1] if paths else '?'}"
            return f"{name:24} FAULT {text[0][:200] if text else report[-600:]}\n  {how}"
        inputs = [path.read_bytes() for path in grown.iterdir()]
    runs = re.findall(r"number_of_executed_units:\s*(\d+)", report)
    fresh = sorted(set(inputs) - set(seeds), key=len)
    before = len(fresh)
    while len(fresh) > KEPT_INPUTS or sum(map(len, fresh)) > KEPT_BYTES:
        fresh.pop()
    fuzz.write_corpus(name, fresh)
    spent = time.monotonic() - start
    ran = int(runs[0]) if runs else 0
    return f"{name:24} {ran:>9,} inputs, {len(fresh)} of {before} kept, {spent:.0f} s, no fault"


def main() -> None:
    """Fuzzes targets one after the other, or replays one input."""
    if sys.argv[1:2] == [CHILD]:
        child(sys.argv[2], sys.argv[3:])
        return
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=120, help="for each target (120)")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"), help="one input")
    asked = parser.parse_args()
    if asked.replay:
        TARGETS[asked.replay[0]]().check(Path(asked.replay[1]).read_bytes())
        print("no fault")
        return
    if find_spec("atheris") is None:
        parser.error("Atheris is not installed: run make fuzz, or pip install -e '.[fuzz]'.")
    names = asked.targets or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"unknown target {unknown[0]}; write one of {', '.join(TARGETS)}.")
    print(f"fuzzing, {date.today()}: {len(names)} targets, {asked.seconds} s each", flush=True)
    lines = []
    for name in names:
        lines.append(search(name, asked.seconds))
        print(lines[-1], flush=True)
    faults = sum(" FAULT " in line for line in lines)
    print(f"{len(names)} targets, {faults} with faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
