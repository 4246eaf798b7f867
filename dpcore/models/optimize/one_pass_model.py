"""What one-pass models have in common: how they are compiled, and what they say."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from weir.dpcore.algorithm import Reading, Shown
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.cut_for import check_places
from weir.dpcore.models.erm.price import refuse_sums
from weir.dpcore.models.optimize.course import Course
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.models.optimize.one_pass_section import WIDE_STATE, OnePassSection
from weir.dpcore.models.optimize.wide_one_pass import WideOnePass
from weir.dpcore.models.words import OWN_UNITS
from weir.dpcore.neighbours import Family
from weir.dpcore.pricing.calibration import MOST_STATE, Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import Program
from weir.dpcore.words import bytes_text, number

SHOWN_RUNS = 4
"""Runs that a plan tells of."""
COMPARED = 12
"""Runs over which noises are compared."""

BARE = "Models have no band: what noise does to a model depends on the events."


class OnePassModel(OnePassSection):
    """A model that reads each record once and is released when the records have doubled."""

    neighbours: ClassVar[Family] = Family(
        ("first", "powers"), "canary", "each record is read once, in a run that doubles"
    )

    reading: ClassVar[Reading] = Reading(
        "Every line is what was released; the events are not in this page. theta is the newest "
        "model, of features scaled to the public ranges; model_of says which records, by their "
        "place, its run read.",
        BARE,
        BARE,
    )
    outputs: ClassVar[Mapping[str, Shown]] = {
        "theta": Shown("coefficients in scaled units, of the newest model", role="scaled_model"),
        "coefficients": OWN_UNITS,
        "model_of": Shown("first and last record of the newest model's run", role="trace"),
    }
    told: ClassVar[frozenset[str]] = frozenset({"theta", "coefficients", "model_of"})
    wide: ClassVar[bool] = True
    untaken: ClassVar[Mapping[str, str]] = {
        "classes": "the target is a number whose sign is the label, as rows are held to the norm "
        "dual to the set's. Give a column of 0 and 1 with ranges [0, 1], or take "
        "optimize.frank_wolfe for two classes, erm.* for more."
    }
    event_only: ClassVar[str] = (
        "a record is read once, and what several records of a user do together is not derived; "
        "take online.follow_the_leader"
    )

    @abstractmethod
    def courses(self, terms: Terms) -> Mapping[tuple[str, str], Callable[[], Course]]:
        """(form, noise) -> the course of it, for every one that could serve.

        Raises:
          ConfigError: what no form can serve.
        """

    @property
    def smaller(self) -> str:
        """What makes the state smaller."""
        return "model.phases: 2"

    def noises_asked(self, terms: Terms, own: str | None = None) -> tuple[str, ...]:
        """The noises to try: what mechanism.noise names, or the model's own field, or all.

        Raises:
          ConfigError: one that is not for it, or two that differ.
        """
        if terms.noise is None:
            return self.noises if own is None else (own,)
        if own is not None and own != terms.noise:
            raise ConfigError("model.noise", own, f"is not mechanism.noise: {terms.noise}.")
        if terms.noise not in self.noises:
            raise ConfigError(
                "mechanism.noise", terms.noise, f"is not for it: {', '.join(self.noises)} only."
            )
        return (terms.noise,)

    def compile(self, terms: Terms) -> tuple[OnePass, tuple[Alternative, ...]]:
        """The form and noise of the least predicted error, and every one that could be.

        Raises:
          ConfigError: what it cannot serve.
        """
        refuse_sums(terms, self.name)
        check_places(terms, f"{self.name}, which reads records in the order of tick and id.")
        offers = []
        refused: list[ConfigError] = []
        for (form, noise), make in self.courses(terms).items():
            try:
                course = make()
            except ConfigError as error:
                refused.append(error)
                continue
            runs = range(min(COMPARED, course.served))
            score = math.exp(sum(math.log(course.predicted(run)) for run in runs) / len(runs))
            offers.append((score, form, noise, course))
        if not offers:
            raise refused[0]
        offers.sort(key=lambda one: one[0])
        best = offers[0][0]
        program = self._program(offers[0][3])
        program.waits.check("model.records", self.records, terms)
        state, room = program.state_bytes(), MOST_STATE if self.inputs is None else WIDE_STATE
        if state > room:
            raise ConfigError(
                "model.features",
                self.dimension,
                f"coefficients take {state / 2**20:,.0f} MiB of state a key, above "
                f"{room >> 20:,} MiB; take fewer, or {self.smaller}.",
            )
        return program, tuple(
            Alternative(
                form,
                noise,
                i == 0,
                score / best,
                self._program(course).state_bytes(),
                course.loss().epsilon(terms.delta),
                {},
            )
            for i, (score, form, noise, course) in enumerate(offers)
        )

    def _program(self, course: Course) -> OnePass:
        norm, inputs = float(self.clip.features), self.inputs
        cap = self.cap_for(inputs)
        if inputs is None:
            return OnePass(self.scaling, self.dual, norm, course, cap, self.name)
        return WideOnePass(inputs.scaling, self.dual, norm, course, cap, self.name, inputs)

    # ---- what it says

    def bounds_facts(self, program: Program) -> Iterator[tuple[str, str]]:
        """What one event may add."""
        if isinstance(program, OnePass):
            yield "one event adds", program.course.adds

    def own_facts(self, program: Program) -> Iterator[tuple[str, str]]:
        """What runs do."""
        if not isinstance(program, OnePass):
            return
        yield "noise", program.course.kind.replace("_", " ")
        for run in range(min(SHOWN_RUNS, program.course.served)):
            yield f"run {run + 1}", program.course.words(run)
        yield "state", f"{bytes_text(program.state_bytes())} a key, however many records"

    def notes(self, program: Program) -> Iterator[str]:
        """See Algorithm."""
        yield (
            "Each record is read once, in the run that its place is in; the model of a run is "
            "released when the last record that it reads is there, and until the next one is. "
            "Before the first there is none (null). Excess risks are bounds, in scaled units, "
            "over the best model of the set: what is measured lies below."
        )

    def doubts(self, program: Program, terms: Terms) -> Iterator[str]:
        """See Algorithm."""
        yield from super().doubts(program, terms)
        if isinstance(program, OnePass):
            yield from program.waits.doubts(terms)

    def refused(self) -> Iterator[str]:
        """See Algorithm."""
        yield from super().refused()
        norm = "largest entry" if math.isinf(self.dual) else f"l{self.dual:g} norm"
        yield (
            f"features of a scaled {norm} above {self.clip.features:g} are shortened to it, and "
            "counted as clipped"
        )
        cap = self.cap_for(self.inputs)
        yield f"of more than {cap:,} events of a key and tick, a keyed hash chooses {cap:,}"

    def warnings(self, program: Program) -> Iterator[str]:
        """See Algorithm."""
        yield from super().warnings(program)
        if not isinstance(program, OnePass):
            return
        yield (
            "Runs are of records, in the order of tick and id: how many events a key has so far "
            "is told by model_of. Events without an id are refused."
        )
        first = program.course.predicted(0)
        if first > 1:
            yield (
                f"The first model may be no better than none: its excess risk is bounded by "
                f"{number(first)} only. Give the first run more records (model.records)."
            )
