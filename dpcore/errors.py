"""Errors that name the field, the value, and what to do."""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable
from datetime import date
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SECRET_FORM = r"[0-9a-fA-F]{64}|[0-9A-Za-z+/]{43}="
"""How 32 secret bytes are written down: as hexadecimal digits or in base64."""


class WeirError(Exception):
    """Base of every error that Weir raises on purpose.

    >>> from weir import ConfigError, WeirError
    >>> issubclass(ConfigError, WeirError)
    True
    """


class ConfigError(WeirError):
    """A public setting that cannot be used.

    Attributes:
      field: dotted path of the setting, for example ``privacy.epsilon``.
      value: what was given. Settings are public, but for a secret given in place of where it is
        kept: what is written like one is left out, here and in the text, whatever stands around it.
      remedy: what is allowed, and what to do.

        >>> from weir import ConfigError, Plan
        >>> try:
        ...     Plan.from_yaml("- visits")
        ... except ConfigError as error:
        ...     error.field, error.value, error.remedy
        ('config', 'line 1', 'must be a mapping of fields, like `name: shop`.')
    """

    def __init__(self, field: str, value: Any, remedy: str) -> None:
        self.field = field
        self.value = _without_secrets(value) if isinstance(value, str) else value
        self.remedy = _without_secrets(remedy)
        argument = " " if value is None else f" = {shown(value)}: "
        super().__init__(_without_secrets(f"{field}{argument}{remedy}"))


def shown(value: Any) -> str:
    """A value as a config spells it: true, null, -1, 'text', [a, b]."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == 0:
        return "0"
    if isinstance(value, date):
        return value.isoformat()
    if type(value) in (list, tuple):
        return f"[{', '.join(map(shown, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{name}: {shown(item)}' for name, item in value.items())}}}"
    return repr(value)


def _without_secrets(text: str) -> str:
    return re.sub(SECRET_FORM, "...", text)


class UnknownField(ConfigError):
    """A name in a config that is no field."""


class CodecError(WeirError):
    """Stored state that does not belong to this plan or this version of the code."""


DAMAGE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError),
    *(StopIteration, EOFError, RecursionError, NotImplementedError, OSError, struct.error),
)
"""What reading damaged bytes raises. Not what a machine or a server does: MemoryError, RuntimeError
and an OSError with a number."""


def in_words(read: Callable[P, T]) -> Callable[P, T]:
    """Returns a reader of stored bytes that raises CodecError for any that it cannot read.

    Faults of the machine stay what they are: memory that is full, a disk or a server that fails.
    What other errors say may quote what is stored, so nothing of it is kept. A StopIteration would
    even end a loop over stored bytes as if there were no more.
    """

    @functools.wraps(read)
    def reading(*args: P.args, **named: P.kwargs) -> T:
        try:
            return read(*args, **named)
        except WeirError:
            raise
        except DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise CodecError(
                f"stored bytes cannot be read by {read.__qualname__} ({type(error).__name__}): "
                "they are damaged, or another build wrote them. Go on from an earlier checkpoint, "
                "or with the build that wrote them."
            ) from None

    return reading


def positive(**named: float) -> None:
    """Raises ConfigError unless every named value is finite and > 0."""
    for name, value in named.items():
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(name, value, "must be a finite number above 0.")


def at_least_one(**named: int) -> None:
    """Raises ConfigError unless every named value is an integer >= 1."""
    for name, value in named.items():
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise ConfigError(name, value, "must be a whole number, 1 or more.")
