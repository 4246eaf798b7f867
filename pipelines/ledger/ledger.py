"""Ledgers: the section of a config, the names in it, and the registry of kinds."""

from __future__ import annotations

import difflib
import unicodedata
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from weir.dpcore.config.clock import Duration
from weir.dpcore.config.privacy import Delta, Epsilon, Per
from weir.dpcore.config.section import Section, refusal
from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.connector import Connector, ConnectorKinds, PluginField
from weir.pipelines.ledger.store import LedgerStore

ScopeName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^\S(.*\S)?$")]


class Budget(Section):
    """The most that all plans of a scope may cost one unit together."""

    epsilon: Epsilon = Field(description="Privacy loss of one unit, of all plans.", examples=[4])
    delta: Delta = Field(
        description="Slack of that guarantee; 0 with accounting: pure alone.", examples=["1e-6"]
    )


class Ledger(Connector):
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
    def store(self, create: bool) -> LedgerStore | None:
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


_LOOK_ALIKE: Final = str.maketrans(
    # Cyrillic capitals and small letters
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
    "\u0430\u0435\u0455\u0456\u0458\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445"
    # Greek capitals and small letters
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03c7"
    # Latin alpha, script g and dotless i; digits and a bar
    "\u0251\u0261\u013101|",
    "ABESIJKMHOPCTYX" + "aesijkmhopctyx" + "ABEZHIKMNOPTYX" + "aikvopux" + "agioll",
)
"""Letters of other alphabets, and digits, that are drawn like a Latin letter."""


def skeleton(name: str) -> str:
    """What is left of a name once look-alike letters, case, accents, spaces and punctuation no
    longer count."""
    plain = unicodedata.normalize("NFKD", name).translate(_LOOK_ALIKE).casefold()
    return "".join(letter for letter in plain if letter.isalnum())


def look_alikes(name: str, known: Iterable[str]) -> list[str]:
    """Other names that look like this one."""
    return [item for item in known if item != name and skeleton(item) == skeleton(name)]


def refuse_unknown(name: str, known: Sequence[str]) -> None:
    """Refuses a scope that nobody has opened, in a ledger that has some.

    Raises:
      ConfigError: names those that are nearest, and the command that opens one.
    """
    alike = look_alikes(name, known)
    near = alike or difflib.get_close_matches(name, known, n=3, cutoff=0.5) or list(known)[:3]
    shown = ", ".join(map(repr, near))
    what = f"looks like {shown} and is not the same name" if alike else f"nearest: {shown}"
    raise ConfigError(
        "ledger.scope",
        name,
        f"{_spelt(name)}is not open in this ledger, and would have a budget of its own; {what}. "
        "Write the scope that these people have; for other people, weir ledger open CONFIG opens "
        "one.",
    )


def refuse_alike(name: str, known: Iterable[str]) -> None:
    """Refuses to open a scope whose name looks like that of another.

    Raises:
      ConfigError: names it.
    """
    for other in look_alikes(name, known):
        raise ConfigError(
            "ledger.scope",
            name,
            f"{_spelt(name)}looks like the scope {other!r}, which is open. Write that name, or one "
            "that differs from it in more than case, punctuation and look-alike letters.",
        )


def _spelt(name: str) -> str:
    """A name by its letters' numbers, where it could be read as another."""
    return "" if name.isascii() else f"({ascii(name)}) "


LEDGERS = ConnectorKinds(
    "ledger",
    {
        "sqlite": "weir.pipelines.ledger.sqlite:SqliteLedger",
        "postgresql": "weir.pipelines.ledger.postgresql:PostgresqlLedger",
    },
    "weir.ledgers",
)

AnyLedger = Annotated[Ledger, PluginField(LEDGERS)]
"""A ledger of any kind, as a field of a section."""
