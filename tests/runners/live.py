"""A live stream with ticks of a second: its config, and a publisher of events as they happen."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runners.jobs import Running, launch
from tests.runners.messages import Post
from tests.runners.recording import SECRET
from weir.dpcore.config.durations import show_timestamp

CONFIG = """\
name: live
source: {{pubsub: {{subscription: {subscription}, timestamp: sent}}}}
schema: {{time: at, id: id, arrival: seen}}
clock: {{start: {start}, period: 1s, end: {end}, delay: 1s}}
privacy: {{epsilon: 5000, delta: 1e-6, protect_for: 8 ticks}}
aggregates: {{visits: {{count: events}}}}
secret: {{file: secret.key}}
engine: {{checkpoint_every: 1s, checkpoints: state}}
sink: {{parquet: out, every: 1}}
"""


@dataclass(frozen=True)
class Live:
    """A job in a folder, on a clock that starts soon.

    Attributes:
      post: its topic and subscription. start: wall seconds. ticks: seconds of the clock.
    """

    folder: Path
    post: Post
    ticks: int
    lead: float = 5.0
    start: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", math.ceil(time.time() + self.lead))
        secret = self.folder / "secret.key"
        secret.write_text(SECRET.hex())
        secret.chmod(0o600)
        start, end = (
            show_timestamp(moment * 1_000_000) for moment in (self.start, self.start + self.ticks)
        )
        text = CONFIG.format(subscription=self.post.subscription, start=start, end=end)
        self.config.write_text(text)

    @property
    def config(self) -> Path:
        return self.folder / "job.yaml"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def files(self) -> int:
        """Files of releases by now: one a tick."""
        return len(list(self.out.glob("ticks-*.parquet")))

    def launch(self, runner: str, *flags: str) -> Running:
        """Starts ``weir run``."""
        return launch(self.config, runner, *flags)


class Device:
    """Sends an event every so many seconds, with what it says of its arrival.

    Args:
      says: what the next message says: its column ``seen``, absent where it is None, and its
        attribute ``sent``, alike.
    """

    def __init__(
        self, post: Post, name: str, every: float, says: Iterator[tuple[Any, str | None]]
    ) -> None:
        self._post, self._name, self._every, self._says = post, name, every, says
        self.sent = 0

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Meanwhile."""
        halt = threading.Event()
        thread = threading.Thread(target=self._run, args=(halt,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            halt.set()
            thread.join()

    def _run(self, halt: threading.Event) -> None:
        while not halt.wait(self._every):
            seen, sent = next(self._says)
            event = {"id": f"{self._name}-{self.sent}", "at": now()}
            message = {
                "data": json.dumps(event if seen is None else {**event, "seen": seen}).encode(),
                "attributes": {} if sent is None else {"sent": sent},
            }
            self._post.publisher.publish(topic=self._post.topic, messages=[message])
            self.sent += 1


def now() -> str:
    """The present as ISO 8601."""
    return show_timestamp(time.time_ns() // 1_000)
