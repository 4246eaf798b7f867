"""Connections to Pub/Sub: the plain calls, without the client library's threads and queues."""

from __future__ import annotations

import os
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.transforms.runtime.fence import Fatal

EMULATOR = "PUBSUB_EMULATOR_HOST"
"""Environment variable that names a server without TLS and credentials, as in every client."""

PATIENCE = 600.0
"""Seconds for which a call that writes is tried again before it fails its bundle."""

REFUSALS = {
    "NOT_FOUND": 10.0,
    "PERMISSION_DENIED": 60.0,
    "UNAUTHENTICATED": 60.0,
    "INVALID_ARGUMENT": 10.0,
    "FAILED_PRECONDITION": 10.0,
    "UNIMPLEMENTED": 10.0,
}
"""Codes that trying again does not change -> seconds for which they are doubted: what has just been
made, or granted, is not known to every server at once."""

_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.keepalive_time_ms", 30_000),
]


class Gone(Fatal):
    """A subscription or a topic that is not there, or may not be used."""


def gone(name: str, code: str) -> Gone:
    """The error for a name that was refused for as long as its code is doubted.

    Args:
      name: projects/P/subscriptions/S or projects/P/topics/T. code: of REFUSALS.
    """
    answers = f"{name} answers {code}, for {REFUSALS[code]:.0f} s by now"
    if code == "NOT_FOUND":
        return Gone(f"{answers}: it was deleted. {_again(name)}")
    if code in ("PERMISSION_DENIED", "UNAUTHENTICATED"):
        return Gone(
            f"{answers}: the workers may not use it. Grant them the right (deploy/pubsub), and "
            "start again from where this ended."
        )
    return Gone(
        f"{answers}: it cannot be used so. Correct it, and start again from where this ended."
    )


def replaced(name: str) -> Gone:
    """The error for a subscription that was not there for a moment, and is there again."""
    return Gone(f"{name} answered NOT_FOUND, and is there again: it was replaced. {_again(name)}")


def _again(name: str) -> str:
    """How to go on after a name was deleted."""
    if "/topics/" in name:
        return "Create it, and start again from where this ended."
    return (
        "A new subscription lacks the messages that the old one held: start a new stream with it, "
        "in new folders."
    )


def emulator() -> str | None:
    """The server that this process is told to use in place of Google's; workers get it by value."""
    return os.environ.get(EMULATOR) or None


def library() -> Any:
    """The client library.

    Raises:
      ConfigError: it is not installed.
    """
    try:
        import google.pubsub_v1
    except ImportError:
        raise ConfigError(
            "pubsub", None, "needs google-cloud-pubsub: pip install weir-dp[pubsub]."
        ) from None
    return google.pubsub_v1


def _transport(kind: Any, host: str | None) -> Any:
    if host is None:
        return kind()
    import grpc

    return kind(channel=grpc.insecure_channel(host, options=_OPTIONS))


def subscriber(host: str | None) -> Any:
    """A client of subscriptions; ``host`` names an emulator."""
    pubsub = library()
    from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

    return pubsub.SubscriberClient(transport=_transport(SubscriberGrpcTransport, host))


def publisher(host: str | None) -> Any:
    """A client of topics; ``host`` names an emulator."""
    pubsub = library()
    from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

    return pubsub.PublisherClient(transport=_transport(PublisherGrpcTransport, host))


def patiently(seconds: float = PATIENCE) -> Any:
    """Retries of a call while the server is away, busy or slow; backs off to 5 s."""
    from google.api_core import exceptions, retry

    again = retry.if_exception_type(
        exceptions.Aborted,
        exceptions.Cancelled,
        exceptions.DeadlineExceeded,
        exceptions.InternalServerError,
        exceptions.ResourceExhausted,
        exceptions.ServiceUnavailable,
        exceptions.Unknown,
        exceptions.TooManyRequests,
        exceptions.GatewayTimeout,
    )
    return retry.Retry(predicate=again, initial=0.1, maximum=5.0, multiplier=2.0, timeout=seconds)


__all__ = [
    "EMULATOR",
    "PATIENCE",
    "REFUSALS",
    "Gone",
    "emulator",
    "gone",
    "library",
    "patiently",
    "publisher",
    "replaced",
    "subscriber",
]
