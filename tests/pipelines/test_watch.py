"""The live page: renewed as ticks come, releases only, for this machine only."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.browser import browser, probed
from tests.pipelines import synthetic
from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.watch.server import HOST, Live, Site, health, operator, releases, serve
from weir.pipelines.watch.watch import Spool, watch

OUTPUTS = [("purchases", 1)]


def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
    return [100.0 + tick], [3.0]


def add(folder: Path, tick: int) -> None:
    """A file of one tick more, moved into place whole."""
    rows = synthetic.rows(["north", "</script><b>"], range(tick, tick + 1), OUTPUTS, value_of)
    made = folder / f"ticks-{tick:012d}-{tick:012d}.parquet"
    synthetic.write(rows, folder / "new.parquet")
    (folder / "new.parquet").replace(made)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that has begun."""
    releases = [synthetic.release(*one) for one in OUTPUTS]
    (tmp_path / "out").mkdir()
    text = json.dumps(synthetic.plan(90, releases, keys=2))
    (tmp_path / "out" / "_plan.json").write_text(text)
    return tmp_path / "out"


class Served:
    """A site that is asked."""

    def __init__(self, site: Site) -> None:
        self.server = serve(site, 0)
        self.port = self.server.server_address[1]

    def get(self, path: str, host: str | None = None) -> http.client.HTTPResponse:
        """An answer, whose body may not have an end."""
        asked = http.client.HTTPConnection(HOST, self.port, timeout=20)
        asked.request("GET", path, headers={"Host": host or f"{HOST}:{self.port}"})
        return asked.getresponse()

    def text(self, path: str, host: str | None = None) -> tuple[int, str]:
        """Status and body."""
        answer = self.get(path, host)
        return answer.status, answer.read().decode()


@pytest.fixture
def live(folder: Path) -> Live:
    """Follows it."""
    return Live(folder)


@pytest.fixture
def served(live: Live) -> Iterator[Served]:
    """The page of releases."""
    made = Served(releases(live))
    yield made
    made.server.shutdown()


@pytest.mark.slow
def test_the_page_is_renewed_as_ticks_come(folder: Path, live: Live, served: Served) -> None:
    live.look()
    code, text = served.text("/")
    assert code == 200 and "has no ticks yet" in text and "refresh" in text
    add(folder, 0)
    assert live.look() and not live.look(), "only what is new is read"
    code, text = served.text("/")
    assert "data-live" in text and "connect-src &#39;self&#39;" in text
    assert "</script><b>" not in text, "a key is text"
    events = served.get("/events")
    first = [events.readline() for _ in range(4)]
    assert first[0] == b"event: tick\n", "who comes, or comes again, is told where it stands"
    add(folder, 1)
    told = threading.Timer(0.3, live.look)
    told.start()
    second = [events.readline() for _ in range(4)]
    assert second[0] == b"event: tick\n" and second[1] != first[1]
    code, text = served.text("/data.json")
    data = json.loads(text)
    assert code == 200 and data["fine"]["ticks"] == [0, 1] and "north" in data["keys"]
    assert "1997-01-02" in data["parts"]["facts"] and "101.0" in data["parts"]["last"]
    assert "</script><b>" not in data["parts"]["last"]


def test_other_hosts_other_pages_and_other_methods_are_refused(live: Live, served: Served) -> None:
    for host in ("weir.example.com", f"evil:{served.port}", HOST, "localhost:1"):
        assert served.text("/data.json", host)[0] == 403
    assert served.text("/", f"localhost:{served.port}")[0] == 200
    for path in ("/../secret.key", "/status", "/operator", "/?token=x"):
        assert served.text(path)[0] in (403, 404)
    asked = http.client.HTTPConnection(HOST, served.port, timeout=20)
    asked.request("POST", "/", body="x")
    assert asked.getresponse().status == 501


def test_the_operators_page_asks_for_its_token() -> None:
    told = {"name": "shop", "lines": [("lag", "3 s")], "alarms": [], "counts": [("late", "7")]}
    served = Served(operator(health(lambda: [told]), "right", 0.2))
    try:
        for path in ("/", "/?token=wrong", "/events", "/events?token=", "/data.json"):
            code, text = served.text(path)
            assert code == 403 and "late" not in text and "lag" not in text
        assert served.text("/?token=right", "evil.example.com")[0] == 403
        code, text = served.text("/?token=right")
        assert code == 200 and "For the operator only" in text and "right" not in text
        line = served.get("/events?token=right").readline().decode()
        assert json.loads(line.removeprefix("data: "))["jobs"] == [json.loads(json.dumps(told))]
    finally:
        served.server.shutdown()


def test_an_operators_page_says_why_there_is_nothing(tmp_path: Path) -> None:
    def look() -> object:
        raise ConfigError("--flink-master", "x:1", "does not answer.")

    assert "does not answer" in json.loads(health(look)())["error"]


class Subscription:
    """What a client of Pub/Sub is asked: messages, once each."""

    def __init__(self, *messages: Any) -> None:
        self.left, self.acknowledged = list(messages), []

    def pull(self, request: Any, timeout: float) -> Any:
        found = [SimpleNamespace(message=one, ack_id=str(i)) for i, one in enumerate(self.left)]
        self.left = []
        return SimpleNamespace(received_messages=found)

    def acknowledge(self, request: Any) -> None:
        self.acknowledged += request["ack_ids"]


def message(tick: int, name: str = "ab" * 16) -> Any:
    """As the sink publishes one: lines of JSON, a row a coordinate."""
    row = {
        "release": "shop", "key": "north", "tick": tick, "name": "purchases", "label": "",
        "tick_start": f"1997-01-{tick + 1:02d}T00:00:00.000000Z", "index": 0, "over": 1,
        "tick_end": f"1997-01-{tick + 2:02d}T00:00:00.000000Z", "value": 7.0 + tick,
        "stddev": 1.0, "epsilon": 1.0, "delta": 1e-6, "window": 365, "plan": "5f",
    }  # fmt: skip
    told = {"id": name, "release": "shop", "first_tick": str(tick), "last_tick": str(tick)}
    return SimpleNamespace(data=json.dumps(row).encode() + b"\n", attributes=told)


@pytest.mark.slow
def test_messages_of_a_subscription_are_shown_once(tmp_path: Path) -> None:
    name = "projects/acme-1/subscriptions/all"
    client = Subscription(message(0), message(1, "cd" * 16), message(0))
    live = Live(tmp_path, Spool(name, tmp_path, client))
    assert live.look() and client.acknowledged == ["0", "1", "2"]
    assert len(list(tmp_path.glob("ticks-*"))) == 2, "a message that comes again is the same file"
    assert ResultFolder.open(tmp_path).last_tick == 1
    assert json.loads(live.shown.data)["fine"]["ticks"] == [0, 1]
    for bad in ({"id": "../../x"}, {"id": "ab" * 16, "first_tick": "3", "last_tick": "-1"}):
        other = SimpleNamespace(data=b"{}", attributes=bad)
        client = Subscription(other)
        with pytest.raises(ConfigError, match="no release"):
            Spool(name, tmp_path, client)()
        assert client.acknowledged == [], "another program's messages are left to it"
    with pytest.raises(ConfigError, match="must look like"):
        Spool("s", tmp_path, client)


def test_it_serves_until_it_is_stopped(folder: Path, weir: Weir) -> None:
    add(folder, 0)
    said: list[str] = []

    def sleep(_: float) -> None:
        if len(said) == 3 and not any("seen" in one for one in said):
            address = said[1].split()[0]
            port = int(address.split(":")[2].split("/")[0])
            answer = http.client.HTTPConnection(HOST, port, timeout=20)
            answer.request("GET", "/events" + address[address.index("?") :])
            told = json.loads(answer.getresponse().readline().decode().removeprefix("data: "))
            said.append(f"seen {told['jobs'][0]['lines']}")
            raise KeyboardInterrupt

    watch(str(folder), None, None, None, (0, 0), True, 0.2, said.append, sleep)
    assert "releases only" in said[0] and "token=" not in said[0]
    assert "1 ticks of 90" in said[3]
    assert "not both" in weir("watch").output
    refused = weir("watch", folder, "--flink-master", "x:1")
    assert refused.exit_code == 2 and "--private" in refused.output


class Heard(dict[str, Any]):
    """Pages of a site, and what was asked for in addition."""

    heard: list[str]

    def __contains__(self, path: object) -> bool:
        found = super().__contains__(path)
        if not found:
            self.heard.append(str(path))
        return found


@pytest.mark.slow
def test_a_browser_follows_the_ticks(folder: Path, live: Live, tmp_path: Path) -> None:
    add(folder, 0)
    live.look()
    site = releases(live)
    tell = """
for (let before = ""; ; await new Promise((go) => setTimeout(go, 100))) {
  await settled();
  const said = document.getElementById("live").textContent.split(" ")[1];
  const drawn = document.querySelectorAll(".chart svg").length;
  const now = `/said/${weir.page().fine.ticks.length}/${drawn}/${said}`;
  if (now !== before) fetch(now);
  before = now;
}"""
    pages = Heard(site.pages)
    pages.heard = []
    page = pages["/"]
    pages["/"] = lambda: (page()[0], probed(page()[1], tell))
    site.pages = pages
    served = Served(site)
    command = [
        browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}", "--remote-debugging-port=0",
        f"http://{HOST}:{served.port}/",
    ]  # fmt: skip

    def told(ticks: int) -> bool:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(one.startswith(f"/said/{ticks}/") and "newest" in one for one in pages.heard):
                return True
            time.sleep(0.05)
        return False

    opened = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert told(1), pages.heard
        add(folder, 1)
        live.look()
        assert told(2), pages.heard
    finally:
        opened.terminate()
        opened.wait(30)
        served.server.shutdown()
