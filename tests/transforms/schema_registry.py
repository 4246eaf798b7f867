"""A schema registry over HTTP, as far as readers ask one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """Schemas by id; an int in the place of a schema is the status that is answered."""

    def __init__(self) -> None:
        self.schemas: dict[int, Any] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.registered: list[tuple[str, str | None]] = []
        self.refuses = 0
        self.down = False
        self.url = ""

    def register(self, entry: dict[str, Any]) -> int:
        """The id of a schema; a new one where it is not there."""
        ids = [id for id, known in self.schemas.items() if known == entry]
        id = ids[0] if ids else max(self.schemas, default=0) + 1
        self.schemas[id] = entry
        return id


@contextmanager
def registry() -> Iterator[Registry]:
    """A registry on this machine."""
    held = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            held.asked.append((self.path, self.headers.get("Authorization")))
            schema = held.schemas.get(int(self.path.rsplit("/", 1)[1]), 404)
            self._answer(schema if isinstance(schema, int) else 200, schema)

        def do_POST(self) -> None:
            held.registered.append((self.path, self.headers.get("Authorization")))
            entry = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            down = held.refuses or held.down
            self._answer(held.refuses or 200, None if down else {"id": held.register(entry)})

        def _answer(self, status: int, content: Any) -> None:
            body = json.dumps(content if isinstance(content, dict) else {}).encode()
            self.send_response(503 if held.down else status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    held.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
