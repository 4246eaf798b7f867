"""What is asked of Pub/Sub before a job starts."""

from __future__ import annotations

import logging
from typing import Any

from weir.dpcore.errors import ConfigError

_log = logging.getLogger(__name__)

ANSWER = 10.0
"""Seconds for which an answer is waited for, and an absent server called again."""


def look_up(field: str, name: str) -> Any:
    """Asks for a subscription or a topic; workers may reach it though it is not reached from here.

    Args:
      field: of the config. name: projects/P/subscriptions/S or projects/P/topics/T.

    Returns:
      What the server says of it; a note (text) where it cannot be looked up.

    Raises:
      ConfigError: there is none of that name, or the client library is not installed.
    """
    from weir.transforms.runtime.pubsub_client import (
        emulator,
        library,
        patiently,
        publisher,
        subscriber,
    )

    library()
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    # A channel that has just lost its server refuses calls at once until it looks for it again.
    how = {"timeout": ANSWER, "retry": patiently(ANSWER)}
    try:
        if "/topics/" in name:
            return publisher(emulator()).get_topic(topic=name, **how)
        return subscriber(emulator()).get_subscription(subscription=name, **how)
    except exceptions.NotFound:
        its = "" if "/topics/" in name else " (and its topic)"
        raise ConfigError(
            field, name, f"does not exist; create it{its}, or correct the name."
        ) from None
    except (exceptions.GoogleAPIError, GoogleAuthError) as error:
        cause = getattr(error, "cause", None) or error  # of the last of several attempts
        return f"{name} cannot be looked up from here ({type(cause).__name__})"


def warn_of(field: str, topic: str) -> None:
    """Looks a topic up, and says so where it cannot be.

    Raises:
      ConfigError: there is none of that name.
    """
    note = look_up(field, topic)
    if isinstance(note, str):
        _log.warning("%s.", note)


__all__ = ["ANSWER", "look_up", "warn_of"]
