"""Assemble: strides of Tick and models of Train into strides that are whole, in order of ticks.

A tick waits until the models of all its jobs are there, and ticks behind it wait for it: a heavy
fit costs time, never order. The watermark waits too: Train holds it back until a job is done, and
what waits here is sent on with the models that it waited for. Where strides come behind the
models, as in bounded input, models are kept as they came until a stride does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindows

from weir.dpcore.plan import Plan
from weir.dpcore.training import Training
from weir.transforms.beam.step import Step
from weir.transforms.operators.assembly import Assembly, outline
from weir.transforms.operators.stride import NoisyStride

STEP_NAME = "Assemble"
HELD_STATE = "held"
EARLY_STATE = "early"
# Runners find stored state by these names: they never change (tests hold it to a file).


class AssembleDoFn(Step):
    """(block, stride without arrays or models) -> NoisyStride. Holds no rows and no secret."""

    HELD = userstate.ReadModifyWriteStateSpec(HELD_STATE, coders.BytesCoder())
    EARLY = userstate.BagStateSpec(EARLY_STATE, coders.BytesCoder())

    def __init__(self, training: Training, layout: str) -> None:
        self._training, self._layout = training, bytes.fromhex(layout)

    def process(
        self,
        element: tuple[int, bytes],
        held: Any = beam.DoFn.StateParam(HELD),  # noqa: B008
        early: Any = beam.DoFn.StateParam(EARLY),  # noqa: B008
    ) -> Iterator[NoisyStride]:
        """Sends on what is whole."""
        block, payload = element
        assembly = Assembly(self._training, self._layout, block, held.read())
        if assembly.early(payload):
            early.add(payload)
            return
        for models in early.read():
            yield from assembly.take(models)
        early.clear()
        yield from assembly.take(payload)
        held.write(assembly.dump())


class Assemble(beam.PTransform[Any, Any]):
    """(strides of Tick, models of Train) -> strides, each block's in order of ticks."""

    def __init__(self, plan: Plan, training: Training) -> None:
        super().__init__()
        self._plan, self._training = plan, training

    def expand(self, given: tuple[Any, Any]) -> Any:
        """By block, in the global window."""
        strides, models = given
        outlined = strides | "Outline" >> beam.Map(outline).with_output_types(tuple[int, bytes])
        return (
            (outlined, models)
            | "Both" >> beam.Flatten()
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Join"
            >> beam.ParDo(AssembleDoFn(self._training, self._plan.layout)).with_output_types(
                NoisyStride
            )
        )
