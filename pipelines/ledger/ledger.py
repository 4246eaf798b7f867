"""The ledger of a job: where what is spent is written down, for whom, and how much may be."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from weir.dpcore.config.contributions import Per
from weir.dpcore.config.promise import Delta, Duration, Epsilon
from weir.dpcore.config.section import Section, refusal
from weir.pipelines.doors.door import Door
from weir.pipelines.ledger.store import Store

ScopeName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^\S(.*\S)?$")]


class Budget(Section):
    """The most that all plans of a scope may cost one unit together."""

    epsilon: Epsilon = Field(description="Privacy loss of one unit, of all plans.", examples=[4])
    delta: Delta = Field(
        description="Slack of that promise; 0 with accounting: pure alone.", examples=["1e-6"]
    )


class Ledger(Door):
    """Where it is written down what plans cost the people of a scope, and the most it may come to.

    A subclass states ``kind``, has a field of its kind's name, and opens itself.
    """

    role: ClassVar[str] = "ledger"
    local: ClassVar[bool] = False
    """Whether it lies on this machine."""

    scope: ScopeName = Field(
        description="Whose budget it is: a name for the people in the events. Plans over the same "
        "people belong into one scope, whatever their sources. The first run of a ledger opens its "
        "scope; `weir ledger open` opens further ones.",
        examples=["customers"],
    )
    budget: Budget = Field(
        description="The most that all plans of the scope may cost one unit together. Fixed when "
        "the scope is opened.",
        examples=["{epsilon: 4, delta: 1e-6}"],
    )
    unit: Literal["event", "user"] | None = Field(
        default=None,
        description="Whom the budget is for; without it: user where per says a period, else the "
        "unit of the plan that opens the scope.",
        examples=["user"],
    )
    per: Per | None = Field(
        default=None,
        description="Of users: the period that the budget is for, a duration, months of the "
        "calendar (1 month; of the zone of the plan that opens the scope), or all; without it, "
        "privacy.per of that plan.",
        examples=["30d"],
    )
    relation: Literal["add_remove", "replace_one", "replace_anywhere"] | None = Field(
        default=None,
        description="Which neighbours the budget is for; without it, those of the plan that opens "
        "the scope.",
        examples=["add_remove"],
    )
    protect_for: Duration | Literal["all"] | None = Field(
        default=None,
        description="Against whose releases it holds: those of so long after an event (or after a "
        "user's period), or all. One horizon for every plan; without it, privacy.protect_for of "
        "the plan that opens the scope.",
        examples=["90d"],
    )
    accounting: Literal["gdp", "zcdp", "pure"] | None = Field(
        default=None,
        description="What adds up: gdp (Gaussian noise, exact), zcdp (takes every kind), or pure "
        "(K-norm noise; delta may be 0). Fixed when the scope is opened; without it, what suits "
        "the plan that opens it.",
        examples=["zcdp"],
    )

    @field_validator("scope")
    @classmethod
    def _check_scope(cls, value: str) -> str:
        if not value.isprintable():
            raise refusal(
                "", ascii(value)[1:-1], "holds a letter that nobody sees. Write visible letters."
            )
        return value

    @model_validator(mode="after")
    def _check_ledger(self) -> Self:
        if self.per is not None and self.unit == "event":
            raise refusal("per", self.per, "is for scopes of users; remove it, or unit: event.")
        return self

    @property
    def whose(self) -> Literal["event", "user"] | None:
        """The unit as far as the section says it."""
        return "user" if self.unit is None and self.per is not None else self.unit

    @abstractmethod
    def store(self, create: bool) -> Store | None:
        """Opens it.

        Args:
          create: whether to make it where there is none; it is written to then, and only then.

        Returns:
          None where there is none, and none is to be made.

        Raises:
          ConfigError: it cannot be used; names the field of its kind.
        """

    @property
    def shown(self) -> str:
        """Where it is, without passwords."""
        return str(self.value)


__all__ = ["Budget", "Ledger"]
