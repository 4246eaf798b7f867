"""Components are whole or not there, anyone who asks, and whatever fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weir.dpcore.errors import WeirError
from weir.pipelines.engines import azurite, flink_config, install, job_server, servers, tools
from weir.pipelines.engines.tools import Component, EngineMissing, cache_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEIR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def component(make: Callable[[Path], None]) -> Component:
    return Component("thing", "things", "v1", "bin/thing", make)


def write(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "thing").write_text("whole")


def test_a_missing_component_says_how_to_get_it() -> None:
    with pytest.raises(EngineMissing, match=r"^thing is not installed: run make things$"):
        component(write).located()


@pytest.mark.parametrize(
    ("locate", "target"),
    [
        (job_server.location, "prism"),
        (flink_config.home, "flink"),
        (job_server.jar, "flink"),
        (servers.pubsub_binary, "pubsub"),
        (servers.BUCKETS.located, "buckets"),
        (azurite.COMPONENT.located, "buckets"),
    ],
)
def test_every_component_names_its_make_target(locate: Callable[[], Path], target: str) -> None:
    with pytest.raises(EngineMissing, match=f"run make {target}$"):
        locate()
    assert target in install.GROUPS


def test_an_installed_component_is_found_and_not_made_again() -> None:
    made = component(write).install()
    assert made.read_text() == "whole"
    again = component(lambda folder: pytest.fail("made twice"))
    assert again.install() == again.located() == made


def test_a_failed_installation_leaves_nothing(cache: Path) -> None:
    def half(folder: Path) -> None:
        write(folder)
        (folder / "read-only").mkdir(mode=0o555)
        raise WeirError("the network is gone")

    with pytest.raises(WeirError, match="the network is gone"):
        component(half).install()
    assert [path.name for path in (cache / "thing").iterdir()] == ["v1.lock"]
    with pytest.raises(EngineMissing):
        component(half).located()
    assert component(write).install().read_text() == "whole"


def test_an_installation_that_makes_something_else_is_refused() -> None:
    with pytest.raises(WeirError, match="made no bin/thing"):
        component(lambda folder: None).install()


def test_nobody_sees_a_component_that_is_being_made() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(folder: Path) -> None:
        write(folder)
        begun.set()
        assert go_on.wait(30)

    thread = threading.Thread(target=component(slow).install)
    thread.start()
    assert begun.wait(30)
    with pytest.raises(EngineMissing):
        component(write).located()
    go_on.set()
    thread.join(30)
    assert component(write).located().read_text() == "whole"


def test_two_who_ask_at_once_make_it_once() -> None:
    times = []

    def make(folder: Path) -> None:
        times.append(time.monotonic())
        time.sleep(0.2)
        write(folder)

    threads = [threading.Thread(target=component(make).install) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(times) == 1


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/weir")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "weir"


@pytest.mark.parametrize(
    ("name", "tool"), [("prism", "go"), ("pubsub", "go"), ("flink", "java"), ("flink", "mvn")]
)
def test_a_missing_tool_is_named_with_a_remedy(
    name: str,
    tool: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install.main([name]) == 1
    said = capsys.readouterr().err
    assert f"needs {tool}, which is not on PATH: install " in said


def test_an_unknown_component_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main(["prysm"]) == 2
    assert "no component 'prysm'; did you mean" in capsys.readouterr().err


def test_a_command_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "PAUSE", 0.01)
    script = "echo x >> tries; [ $(wc -l < tries) -ge 3 ]"
    tools.run(["sh", "-c", script], "trying", tmp_path)
    assert (tmp_path / "tries").read_text() == "x\n" * 3


def test_a_command_that_never_works_shows_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "PAUSE", 0.01)
    with pytest.raises(tools.InstallFailed, match=r"sh failed 3 times \(exit 7\):\n  no route"):
        tools.run(["sh", "-c", "echo no route; exit 7"], "trying", tmp_path)
