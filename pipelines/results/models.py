"""The models of one tick of a run: key -> coefficients, as they were released."""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.pipelines.results.files import matrix
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import COLUMNS, batch_of

Models = dict[str, Floats]


def models_at(run: ResultFolder, name: str, tick: int) -> Models:
    """Every key's model at a tick; keys without one yet are left out.

    Args:
      name: of the release that holds it. tick: that was released.

    Raises:
      ConfigError: nothing of that name was released.
    """
    output = next((item for item in run.outputs if item.name == name), None)
    if output is None:
        raise ConfigError("directory", str(run.directory), f"holds no {name} to predict with.")
    models: Models = {}
    for raw in run.batches(COLUMNS, tick):
        batch = batch_of(raw)
        rows = batch.rows(output, np.flatnonzero(batch.tick == tick))
        values = matrix(batch.value, rows, len(output.labels))
        for key, model in zip(batch.key[rows].tolist(), values, strict=True):
            if np.isfinite(model).all():
                models.setdefault(batch.keys[key], model)
    return models
