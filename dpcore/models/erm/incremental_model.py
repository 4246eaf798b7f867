"""``regression.erm`` in a config."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from weir.dpcore.config.section import Lengths
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.erm import tau
from weir.dpcore.models.erm.incremental import IncrementalErm
from weir.dpcore.models.erm.price import refuse_sums, rule_of
from weir.dpcore.models.erm.schedule import schedule_for
from weir.dpcore.models.erm.section import RefittedModel
from weir.dpcore.models.fields import ALGORITHM
from weir.dpcore.pricing.alternatives import noises_for
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms


def _every(value: Any) -> Any:
    if isinstance(value, str):
        if value not in tau.RULES:
            raise ValueError(
                f"must be a number of ticks, a duration like 7d, or one of {', '.join(tau.RULES)}."
            )
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a number of ticks, 1 or more, or the name of a rule.")
    return value


Every = Annotated[
    int | str,
    BeforeValidator(
        _every,
        json_schema_input_type=Annotated[int, Field(ge=1)]
        | Lengths
        | Literal["convex", "strongly_convex", "frank_wolfe"],
    ),
]


class ErmModel(RefittedModel):
    """Any convex loss, fitted again every few ticks to all rows so far."""

    algorithm: Literal["regression.erm"] = Field(description=ALGORITHM, examples=["regression.erm"])
    every: Every | None = Field(
        default=None,
        description="Ticks between two runs of the private solver, or a rule: convex, "
        "strongly_convex, or frank_wolfe (of that solver). In between the last model is released "
        "again.",
        examples=[24],
    )

    title: ClassVar[str] = "any convex loss, fitted again every few ticks to all rows so far"
    about: ClassVar[str] = (
        "The rows of each key are kept, up to a public number; every tau ticks a private batch "
        "solver minimises their loss over the set, each time for a share of the budget."
    )
    source: ClassVar[str] = (
        "Kasiviswanathan, Nissim & Jin 2017 (PrivIncERM); Bassily, Smith & Thakurta 2014"
    )
    event_only: ClassVar[str] = ""

    @property
    def _rule(self) -> int | str | None:
        """Ticks between runs, or the rule for them; each solver has its own.

        Raises:
          ConfigError: the rule of another solver.
        """
        own = self.solver == "frank_wolfe"
        if self.every == "frank_wolfe" and not own:
            raise ConfigError(
                "model.every",
                self.every,
                f"is for solver: frank_wolfe, not {self.solver}; set convex or a number of ticks.",
            )
        return "frank_wolfe" if own and self.every is None else self.every

    def compile(self, terms: Terms) -> tuple[IncrementalErm, tuple[Alternative, ...]]:
        """Incremental ERM with the noise that serves best, and every noise that could.

        Raises:
          ConfigError: what it cannot serve.
        """
        refuse_sums(terms, self.name)
        problem = self.problem(terms)
        every = rule_of(self._rule, problem, terms.epsilon)
        window = terms.lasting
        if terms.person is not None:
            window = terms.person.pattern.rows(window)
        return self.choose(
            terms,
            problem,
            lambda budget: schedule_for(every, window, terms.horizon, budget),
            noises_for(terms),
        )
