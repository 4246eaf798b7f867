"""A folder of releases as a page that is renewed as ticks come. Releases only."""

from __future__ import annotations

import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from weir.dpcore.errors import ConfigError
from weir.pipelines.report.page import policy, templates
from weir.pipelines.results.files import result_files
from weir.pipelines.results.run import ResultFolder


class LivePage(NamedTuple):
    """What is served. number: grows with every change. page: HTML; "" while there is no release.
    data: what the page asks for when told of a tick, JSON. said: what is waited for."""

    number: int
    page: str
    data: str
    said: str


class Live:
    """Follows a folder.

    Args:
      folder: of releases; need not be there yet.
      refresh: called before each look, to bring in what is new.
    """

    def __init__(self, folder: Path, refresh: Callable[[], None] = lambda: None) -> None:
        self._folder, self._refresh = folder, refresh
        self._seen: tuple[str, ...] = ()
        self._changed = threading.Condition()
        self._shown = LivePage(0, "", "{}", "There is no release yet.")

    @property
    def shown(self) -> LivePage:
        """The newest."""
        return self._shown

    def look(self) -> bool:
        """Reads the folder again where it changed. Returns whether there is something new.

        Raises:
          ConfigError: ``refresh`` refuses.
        """
        self._refresh()
        seen = tuple(file.path.name for file in result_files(self._folder))
        seen += tuple(p for p in ("_plan.json", "_COMPLETE") if (self._folder / p).exists())
        if seen == self._seen:
            return False
        try:
            page, data = _drawn(self._folder)
            shown = LivePage(self._shown.number + 1, page, data, "")
        except (ConfigError, FileNotFoundError) as error:  # a file may be moved while it is read
            shown = self._shown._replace(number=self._shown.number + 1, said=str(error))
            seen = () if isinstance(error, FileNotFoundError) else seen
        self._seen = seen
        with self._changed:
            self._shown = shown
            self._changed.notify_all()
        return True

    def wait(self, number: int, seconds: float) -> LivePage:
        """The newest, as soon as it is newer than ``number``, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._shown.number > number, seconds)
            return self._shown


def _drawn(folder: Path) -> tuple[str, str]:
    """Page and data of a folder."""
    from weir.pipelines.estimates.estimate import refreshed
    from weir.pipelines.report.data import gather
    from weir.pipelines.report.page import as_script, page, parts, payload

    refreshed(folder)
    data = gather(ResultFolder.open(folder))
    reported = {**payload(data), "parts": parts(data)}
    return page(data, live=True), as_script(reported)


def health(look: Callable[[], object]) -> Callable[[], str]:
    """What an operator's page shows, JSON: a call never fails, but says why there is nothing."""

    def asked() -> str:
        from weir.pipelines.engines.processes import EngineFailed

        try:
            return json.dumps({"jobs": look(), "error": ""})
        except (ConfigError, EngineFailed) as error:
            return json.dumps({"jobs": [], "error": str(error)})

    return asked


HOST = "127.0.0.1"
ALIVE = 10.0
"""Seconds after which a silent stream of events says that it is there."""
STOPS = 0.05
"""Seconds between looks at whether it is to stop."""
STREAMS = 32
"""Streams of events at a time; who comes later is told to come again."""
_HERE = Path(__file__).parent
Answer = tuple[str, str]
"""Type of the content, and the content."""


class Site:
    """What a server answers.

    Args:
      pages: path -> content. events: lines of server-sent events, without end.
      token: without it nothing is told; "": everybody may ask.
    """

    def __init__(
        self,
        pages: dict[str, Callable[[], Answer]],
        events: Callable[[], Iterator[str]],
        token: str = "",
    ) -> None:
        self.pages, self.events, self.token = pages, events, token
        self.room = threading.BoundedSemaphore(STREAMS)


def serve(site: Site, port: int, field: str = "--port") -> ThreadingHTTPServer:
    """Starts a server in threads that end with the process. port: 0 takes any that is free.

    Raises:
      ConfigError: the port is taken. field: names it.
    """
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(site))
    except OSError as error:
        raise ConfigError(field, port, f"cannot be listened on: {error.strerror}.") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(STOPS,), daemon=True).start()
    return server


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "weir", ""

        def do_GET(self) -> None:  # noqa: N802
            address: Any = self.server.server_address
            port = address[1]
            if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
                self._send(403, ("text/plain", "This page is for this machine alone.\n"))
                return
            url = urlsplit(self.path)
            argument = parse_qs(url.query).get("token", [""])[0]
            if not hmac.compare_digest(argument.encode(), site.token.encode()):
                self._send(403, ("text/plain", "The address that weir printed has a token.\n"))
            elif url.path == "/events":
                self._stream()
            elif url.path in site.pages:
                self._send(200, site.pages[url.path]())
            else:
                self._send(404, ("text/plain", "There is no such page.\n"))

        def _send(self, code: int, answer: Answer) -> None:
            kind, text = answer
            body = text.encode()
            self._head(code, kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _head(self, code: int, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            for name, value in (
                ("Cache-Control", "no-store"),
                ("X-Content-Type-Options", "nosniff"),
                ("Referrer-Policy", "no-referrer"),
                ("Cross-Origin-Resource-Policy", "same-origin"),
                ("X-Frame-Options", "DENY"),
            ):
                self.send_header(name, value)

        def _stream(self) -> None:
            if not site.room.acquire(blocking=False):
                self._send(503, ("text/plain", "Too many pages are open.\n"))
                return
            try:
                self._head(200, "text/event-stream")
                self.end_headers()
                for line in site.events():
                    self.wfile.write(line.encode())
                    self.wfile.flush()
            except OSError:
                return  # the page was closed
            finally:
                site.room.release()

        def log_message(self, *_: Any) -> None:
            """Nothing: an address may hold a token."""

    return Handler


def releases(live: Live) -> Site:
    """The page of releases."""

    def page() -> Answer:
        shown = live.shown
        if shown.page:
            return "text/html", shown.page
        waiting = templates().from_string(
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta http-equiv="refresh" content="2"><title>weir</title><p>{{ said }}</p></html>'
        )
        return "text/html", waiting.render(said=shown.said)

    def events() -> Iterator[str]:
        number = 0  # who comes back may have missed some
        while True:
            shown = live.wait(number, ALIVE)
            new = shown.number > number and bool(shown.page)
            yield f"event: tick\nid: {shown.number}\ndata: {shown.number}\n\n" if new else ":\n\n"
            number = shown.number

    return Site({"/": page, "/data.json": lambda: ("application/json", live.shown.data)}, events)


def operator(asked: Callable[[], str], token: str, every: float) -> Site:
    """The operator's page. asked: what it shows, JSON; every: seconds between two questions."""
    script = (_HERE / "operator.js").read_text()
    text = (_HERE / "operator.html").read_text()
    text = text.replace("POLICY", policy((script,), True)).replace("SCRIPT", script)

    def events() -> Iterator[str]:
        while True:
            yield f"data: {asked()}\n\n"
            time.sleep(every)

    return Site({"/": lambda: ("text/html", text)}, events, token)
