"""What releases are made of, replayed: the same outputs for every neighbour."""

from __future__ import annotations

from typing import Any

import numpy as np


class Script:
    """Replays what was released, and keeps what each release was made of."""

    def __init__(self) -> None:
        self.seen: list[list[np.ndarray]] = []
        self.outputs: list[np.ndarray] = []
        self.scales: list[Any] = []

    def start(self) -> None:
        self.seen.append([])

    def answer(self, clean: np.ndarray, make: Any, scale: Any) -> np.ndarray:
        at = len(self.seen[-1])
        self.seen[-1].append(np.array(clean))
        if len(self.seen) == 1:
            self.outputs.append(np.array(make()))
            self.scales.append(scale)
        return self.outputs[at].copy()
