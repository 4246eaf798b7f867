"""Pages served on this machine: one of releases for everybody here, one for the operator alone.

Both listen on 127.0.0.1 and answer nothing but GET with a ``Host`` of this machine, so that no page
of the Web can reach them by a name that it points here. The operator's has a port of its own and
answers only who knows its token: lag, dead letters and counts are private.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from weir.dpcore.errors import ConfigError
from weir.pipelines.report.page import policy, templates
from weir.pipelines.watch.live import Live

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
            given = parse_qs(url.query).get("token", [""])[0]
            if not hmac.compare_digest(given.encode(), site.token.encode()):
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
