"""Every target by name. It is built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz import answers, configs, decoders, folders, messages, notes, stored
from tests.fuzz.target import Target

TARGETS: dict[str, Callable[[], Target]] = {
    **decoders.targets(),
    **messages.targets(),
    **stored.targets(),
    **notes.targets(),
    **configs.targets(),
    **folders.targets(),
    **answers.targets(),
}
