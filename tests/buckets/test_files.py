"""A disk and buckets do the same, on real servers: whole files, and nothing replaced in passing."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from weir.dpcore.errors import ConfigError
from weir.pipelines.engines.servers import BucketServer
from weir.transforms.runtime import fence, files
from weir.transforms.runtime.stores.store import StoreError
from weir.transforms.sinks import place

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
MANY = 6
ROUNDS = 3
LARGE = 9 << 20
"""Bytes above which Google's library uploads in a session of several requests."""


def at_once(act: Callable[[int], T]) -> list[T]:
    """What MANY threads get that start together."""
    gate, found = threading.Barrier(MANY), dict[int, T]()

    def run(number: int) -> None:
        gate.wait()
        found[number] = act(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(MANY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(MANY)]


def test_a_file_is_there_once_and_whole(folder: str) -> None:
    path = files.join(folder, "a.txt")
    assert files.read(path) is None and files.entry(path) is None and not files.exists(path)
    assert files.put(path, b"one") and not files.put(path, b"two")
    assert files.read(path) == b"one"
    files.replace(path, b"three")
    found = files.entry(path)
    assert found is not None and (found.path, found.size) == (path, 5) and found.changed > 1e9
    with files.open_raw(path) as file:
        assert (file.seek(-2, io.SEEK_END), file.read(), file.seek(1), file.read(2)) == (
            3, b"ee", 1, b"hr",
        )  # fmt: skip
    files.remove(path)
    files.remove(path)
    assert files.read(path) is None
    with pytest.raises(OSError):
        files.open_raw(path)
    assert files.put(path, b"") and files.read(path) == b""


def test_names_files_and_globs(folder: str) -> None:
    for name in ("b.csv", "a.csv", "deep/c.csv", "deep/er/d.csv", "[x].csv"):
        files.put(files.join(folder, name), name.encode())
    assert files.names(files.join(folder, "nowhere")) == []
    assert sorted(files.names(folder)) == ["[x].csv", "a.csv", "b.csv", "deep"]
    assert sorted(files.names(folder + "/")) == sorted(files.names(folder))

    def matched(pattern: str) -> list[str]:
        return [one.path.removeprefix(f"{folder}/") for one in files.match(f"{folder}/{pattern}")]

    assert matched("*.csv") == ["[x].csv", "a.csv", "b.csv"] == matched("")
    assert matched("**.csv") == ["[x].csv", "a.csv", "b.csv", "deep/c.csv", "deep/er/d.csv"]
    assert matched("[ac].csv") == ["a.csv"] and matched("[!a].csv") == ["b.csv"]
    assert matched("[]x[]*") == ["[x].csv"] and matched("d??p/*") == ["deep/c.csv"]
    assert matched("a.csv") == ["a.csv"] and matched("none*") == [] == matched("none")
    inside = files.under(files.join(folder, "deep"))
    assert sorted(one.path for one in inside) == [
        f"{folder}/deep/{n}" for n in ("c.csv", "er/d.csv")
    ]
    files.remove(files.join(folder, "deep"))
    assert sorted(files.names(folder)) == ["[x].csv", "a.csv", "b.csv"]


def test_of_all_who_make_a_file_at_once_one_does(folder: str) -> None:
    for turn in range(ROUNDS):
        path = files.join(folder, str(turn))
        won = at_once(lambda number, path=path: files.put(path, b"%d" % number))
        assert sum(won) == 1 and files.read(path) == b"%d" % won.index(True)


def test_a_large_file_is_made_once_too(bucket: str) -> None:
    path = f"{bucket}/large"
    content = bytes(LARGE)
    assert files.put(path, content) and not files.put(path, content + b"x")
    assert files.read(path) == content
    with files.open_raw(path) as file:
        assert sum(len(part) for part in iter(lambda: file.read(1 << 20), b"")) == LARGE


def test_of_all_who_move_onto_one_target_one_does(folder: str) -> None:
    for turn in range(ROUNDS):
        target = files.join(folder, f"target-{turn}")
        sources = [files.join(folder, f"source-{turn}-{number}") for number in range(MANY)]
        for source in sources:
            assert files.put(source, source.encode())
        moved = at_once(lambda number, t=target, s=sources: files.move(s[number], t))
        assert sum(moved) == 1
        assert files.read(target) == sources[moved.index(True)].encode()
        left = [source for source in sources if files.exists(source)]
        assert left == [one for one, gone in zip(sources, moved, strict=True) if not gone]
        assert not files.move(files.join(folder, "nothing"), files.join(folder, "anywhere"))


def test_all_who_claim_a_folder_at_once_have_a_number_of_their_own(folder: str) -> None:
    for turn in range(ROUNDS):
        place = files.join(folder, str(turn))
        claims = at_once(lambda number, place=place: fence.claim(place, f"job {number}"))
        assert sorted(one.epoch for one in claims) == list(range(1, MANY + 1))
        for one in claims:
            around = fence.Fence(one)
            if one.epoch == MANY:
                around.check()
            else:
                with pytest.raises(fence.Fenced):
                    around.check()


def test_of_all_plans_that_begin_a_folder_at_once_one_does(folder: str) -> None:
    for turn in range(ROUNDS):
        out = files.join(folder, str(turn))

        def begun(number: int, out: str = out) -> bool | None:
            try:
                return place.prepare(out, {"layout": str(number)}, "sink.csv")
            except ConfigError as refused:
                assert "holds results of another plan" in refused.remedy
                return None

        won = at_once(begun)
        assert sorted(map(str, won)) == ["False", *["None"] * (MANY - 1)]
        plan = json.loads(files.read(files.join(out, place.PLAN_FILE)) or b"{}")
        assert plan == {"layout": str(won.index(False))}


CLAIMS = """
import sys
from weir.transforms.runtime import fence
sys.stdin.readline()
print(*(fence.claim(f"{sys.argv[1]}/{turn}", sys.argv[2]).epoch for turn in range(10)))
"""


def test_processes_that_claim_at_once_have_numbers_of_their_own(folder: str) -> None:
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMS, folder, name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for job in jobs:
        assert job.stdin is not None
        job.stdin.write("\n")
        job.stdin.flush()
    found = [job.communicate(timeout=120)[0].split() for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0]
    assert [sorted(pair) for pair in zip(*found, strict=True)] == [["1", "2"]] * 10


def test_a_lost_answer_is_no_second_winner_and_no_loser(buckets: BucketServer, bucket: str) -> None:
    path = f"{bucket}/claimed"
    files.put(f"{bucket}/first", b"")
    buckets.lose(bucket[:2])
    assert files.put(path, b"mine"), "the library asks again, and is told that there is one: ours"
    assert not files.put(path, b"mine"), "the same bytes of another try are another's"


def test_an_object_that_changes_is_not_read_on(bucket: str) -> None:
    path = f"{bucket}/a"
    files.put(path, bytes(LARGE))
    with files.open_raw(path) as file:
        assert len(file.read(10)) == 10
        files.remove(path)
        with pytest.raises(StoreError, match="was replaced or removed while it was read"):
            file.read()
        files.put(path, b"x" * LARGE)
        if bucket.startswith("gs"):  # the server of S3 here knows If-Match for writes only
            with pytest.raises(StoreError, match="was replaced or removed while it was read"):
                file.read()


def test_what_a_service_refuses_is_said_in_words(buckets: BucketServer, bucket: str) -> None:
    missing = bucket.replace("weir-test", "no-such-bucket")
    for act in (lambda: files.put(f"{missing}/a", b""), lambda: files.names(missing)):
        with pytest.raises(StoreError, match="no such bucket") as refused:
            act()
        assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
        assert refused.value.errno, "a failure of the network must not be taken for a damaged file"


def test_without_hard_links_one_wins_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    for turn in range(4 * ROUNDS):
        path = str(tmp_path / str(turn))
        won = at_once(lambda number, path=path: files.put(path, b"%d" % number))
        assert sum(won) == 1 and files.read(path) == b"%d" % won.index(True)
