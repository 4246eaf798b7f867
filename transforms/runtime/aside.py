"""What one process keeps aside: a name travels between its steps in place of long values.

A runner encodes what goes from one stage to the next, keeps it until the stage is over, and keeps
what a step stores of it a second time. Where all steps are in this process that is several copies
of all events. Here a value is kept once, as it is, and read once.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import EmbeddedPythonEnvironment

from weir.dpcore.errors import CodecError
from weir.transforms.runtime.codec import pack, unpack

KIND = b"A"
"""Kind of bytes of a name."""
T = TypeVar("T")
S = TypeVar("S")


class Aside(Generic[T, S]):
    """Values of one run in this process, by names. Threads share it.

    Steps find it by the run's name; it lasts as long as somebody holds it, which the transform that
    made it does.

    Attributes:
      shared: what all values of the run refer to.
    """

    def __init__(self, shared: S) -> None:
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._kept: dict[int, T] = {}
        self.shared = shared

    @classmethod
    def of(cls, run: str, shared: Callable[[], S]) -> Aside[T, S]:
        """That of a run; ``shared`` makes what its values refer to."""
        return _ASIDES.setdefault(run, cls(shared()))

    def put(self, value: T) -> bytes:
        """Keeps a value. Returns its name."""
        with self._lock:
            number = next(self._numbers)
            self._kept[number] = value
        return pack(KIND, [np.array([number], dtype=np.int64)])

    def take(self, name: bytes) -> T:
        """The value of a name, which is let go.

        Raises:
          CodecError: it is not here, or was taken already.
        """
        number = int(unpack(KIND, name)[0][0])
        with self._lock:
            if number not in self._kept:
                raise CodecError(
                    f"what this process kept aside under number {number} is not there: the runner "
                    "has repeated a bundle, or has workers in other processes."
                )
            return self._kept.pop(number)

    def __len__(self) -> int:
        """Values that nobody took so far."""
        return len(self._kept)


_ASIDES: WeakValueDictionary[str, Aside[Any, Any]] = WeakValueDictionary()


def in_one_process(pipeline: Any) -> bool:
    """Whether a pipeline runs in this process alone, each bundle once, and fails as a whole."""
    if type(pipeline.runner) is not FnApiRunner:
        return False
    options = pipeline.options.view_as(DirectOptions)
    return (
        pipeline.runner._bundle_repeat == 0
        and not options.direct_runner_bundle_repeat
        and options.direct_running_mode in (None, "in_memory")
        and type(pipeline.runner._default_environment) is EmbeddedPythonEnvironment
        and not options.direct_embed_docker_python
    )
