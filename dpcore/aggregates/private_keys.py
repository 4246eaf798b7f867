"""How keys are found in private with aggregates: by which count, and with which noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.aggregates.counts import CountOutput
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.aggregates.program import Aggregates, SumPart
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.alternatives import Offer, Strategy
from weir.dpcore.pricing.calibration import calibrated, share
from weir.dpcore.pricing.terms import Terms, events_of

SUMS: Mapping[str, tuple[str, ...]] = {
    "gaussian": ("blt",),
    **dict.fromkeys(("k_norm", "laplace"), ("tree", "hybrid")),
}
"""Which sum the count gets where it is released nowhere: the first that serves."""


PERIOD = 1
"""Ticks from a period's last one on that the count is looked at: that one alone."""


def found_by(program: Aggregates, terms: Terms) -> DiscoveryRule | None:
    """The rule of a program that carries the count; None where no key is found in private.

    Raises:
      ConfigError: threshold and noise leave the integers of the lattice; or keys are to be retired
        by a count that is released nowhere.
    """
    discover, person = terms.discover, terms.person
    if discover is None or person is None:
        return None
    where = _where(program)
    assert where is not None
    part, channel, array = where
    if part.hidden and discover.retire is not None:
        raise ConfigError(
            "key.discover.retire",
            discover.retire.model_dump(),
            "is a rule on what a key releases, and no output releases its users; add an aggregate "
            "{count: users, per: period}, or leave it out.",
        )
    touched = person.pattern.touched
    if terms.groups is not None:
        touched = terms.groups.touched_by(touched)
    before = part.channels[: part.channels.index(channel)]
    coordinate = sum(program.channels[item].size for item in before)
    return DiscoveryRule(
        discover,
        person.periods,
        touched,
        terms.delta_sel / terms.factor,
        part.mechanism,
        coordinate,
        array,
        part.coordinates[coordinate],
        next(i for i, item in enumerate(program.parts) if item is part),
        part.coordinates,
        round(1 / program.channels[channel].resolution),
        part.hidden,
    )


def _where(program: Aggregates) -> tuple[SumPart, int, int] | None:
    """Part, channel and noisy array that have each key's users so far; None: nothing does."""
    array = 0
    for part in program.parts:
        for over in part.mechanism.overs:
            for channel in part.channels:
                of = program.channels[channel]
                if over is None and (of.kind, of.takes) == ("count", "newcomers"):
                    return part, channel, array
            array += 1
    return None


def selecting(way: Strategy[Aggregates], noise: str, terms: Terms) -> Strategy[Aggregates]:
    """The way, with a count of users next to it where its program has none.

    Formal guarantees: the count gets ``discover.share`` of the budget and the rest of the program
    the other; both compose adaptively. Where an output releases the count, finding keys by it is
    post-processing.
    """
    discover = terms.discover
    if discover is None:
        return way
    fraction = discover.share

    def with_count(budget: PrivacyLoss) -> Offer[Aggregates]:
        whole = way(budget)
        if _where(whole.program) is not None:
            return whole
        rest = way(share(budget, 1 - fraction))
        result = _counting(rest.program, noise, terms, share(budget, fraction))
        return replace(rest, program=result)

    return with_count


def _counting(program: Aggregates, noise: str, terms: Terms, budget: PrivacyLoss) -> Aggregates:
    """The program and a hidden part that counts the users of each key and period."""
    counting = Channel.make("count", takes="newcomers", events=events_of(terms))
    channels = program.channels
    if counting not in channels:
        channels = (*channels, counting)
    at = channels.index(counting)
    alone = replace(terms, window=PERIOD, options=())
    norm = 1 if noise == "laplace" else 2
    leaf = ChannelLeaf(channels, (CountOutput("", None, (None,), 1.0, at),), (None,), alone, norm)
    part = SumPart(_sum(leaf, noise, alone, budget), leaf.read, leaf.coordinates, hidden=True)
    return replace(program, channels=channels, parts=(*program.parts, part))


def _sum(leaf: ChannelLeaf, noise: str, terms: Terms, budget: PrivacyLoss) -> ContinualSum:
    refused: ConfigError | None = None
    for name in SUMS[noise]:
        try:
            return calibrated(name, leaf, terms, budget)
        except ConfigError as error:
            refused = error
    assert refused is not None
    raise refused
