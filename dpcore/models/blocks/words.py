"""What models of blocks say to people: facts, notes and warnings of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.level import FitLevel
from weir.dpcore.models.blocks.partition import ByCount, ByUsers
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.models.blocks.schedule import Participation
from weir.dpcore.models.blocks.steps import StepsLevel
from weir.dpcore.models.blocks.stochastic import Stochastic
from weir.dpcore.models.kit.filter import FilterRule, constant_loss
from weir.dpcore.models.words import hidden
from weir.dpcore.words import bytes_text, number

SQUARED = (
    "The squared loss has its slope clipped where a prediction is further from the target than the "
    "target's range is wide: as {huber: 2}. Elsewhere it is squared. A smaller Huber width takes "
    "less noise."
)


def of_rule(error: ConfigError, epsilon: float) -> ConfigError:
    """A refusal where lambda follows from epsilon: what to write in its place."""
    if error.field != "model.regularise":
        return error
    strong = "is so small that the regulariser, which follows from it, leaves the loss no double"
    words = f"{strong} precision; raise it, or set model.regularise."
    return ConfigError("privacy.epsilon", epsilon, words)


def noise_fact(worst: float) -> tuple[str, str]:
    """Of what is released."""
    return (
        "noise of a model",
        f"at most {number(worst)} (std of a scaled coefficient, on average)",
    )


def bound_fact(program: BlockProgram) -> tuple[str, str]:
    """What one event, or one user, may add."""
    gradient = f"a gradient of l2 norm at most {number(program.objective.lipschitz)} (scaled units)"
    if isinstance(program.levels[0], StepsLevel):
        gradient = "a gradient that is clipped in l2, as long rows of all features are about"
    if program.cut.users:
        return "one user adds", f"to a block, all events together, {gradient}: their mean"
    return "one event adds", gradient


def facts(program: BlockProgram) -> Iterator[tuple[str, str]]:
    """What is fitted, and what is kept."""
    cut = program.cut
    if isinstance(cut, ByUsers):
        yield "blocks", f"of {cut.ticks:,} ticks ({number(cut.divisor)} users expected)"
    elif cut.by_count:
        yield "blocks", f"of {cut.most:,} records"
    else:
        ticks = int(cut.canonical()["ticks"])
        yield "blocks", f"of {ticks:,} ticks ({number(cut.divisor)} events expected)"
    for level in program.levels:
        yield (
            f"a fit of {level.size:,} block{'s' if level.size > 1 else ''}",
            f"{level.way}; costs {number(level.loss.value)} "
            f"({level.loss.kind}); noise {number(level.variance**0.5)}",
        )
    excess, trivial = predicted(program)
    yield (
        "predicted excess",
        f"{number(excess)} of the {number(trivial)} that a constant loses (mean "
        "loss of a first fit, for features spread evenly over their ranges)",
    )
    yield "kept", f"rows, up to {bytes_text(program.state_bytes())} a key"


def first_fit(program: BlockProgram) -> FitLevel:
    """The level of the first fit."""
    blocks = 1
    while not (fits := program.schedule.fits(blocks)):
        blocks += 1
    return program.levels[fits[0].level]


def predicted(program: BlockProgram) -> tuple[float, float]:
    """Predicted excess of the mean loss of a first fit, and what a constant loses.

    Of noise on a minimum lambda R^2 + v c k A^2 s^2 / 2, as the Hessian's trace is at most c A^2
    for each of k outputs and on average v of it; R = 4 / A is the length of a good model, 2 / A of
    numbers.
    """
    level, objective = first_fit(program), program.objective
    loss = objective.loss
    labels = bool(getattr(loss, "labels", False))
    trivial = constant_loss(labels, loss.outputs)
    if isinstance(level, StepsLevel):
        return level.excess, trivial
    size = (4.0 if labels or loss.outputs > 1 else 2.0) / objective.reach
    curvature = FilterRule.of(labels, loss.outputs, loss.smoothness).slack * loss.smoothness
    noise = curvature * loss.outputs * objective.reach**2 * level.variance / 2
    return min(trivial, objective.strength * size**2) + noise, trivial


def doubts(program: BlockProgram) -> Iterator[str]:
    """What the numbers of a plan speak against."""
    fewer = "fewer features"
    if not isinstance(program.levels[0], StepsLevel):
        fewer += ", model.solver: steps"
    yield from hidden(*predicted(program), fewer)


def notes(program: BlockProgram) -> Iterator[str]:
    """How releases are to be read."""
    yield (
        "A model is fitted once, when its last block is complete, and released until the next; "
        "before the first there is none (null). Noise is predicted as if events said nothing "
        "against that of the models that a fit follows: at most."
    )
    if any(isinstance(level, Stochastic) for level in program.levels):
        yield (
            "Stochastic steps end near the minimiser, how near is not certified and not in the "
            "predicted noise: the noise is for whatever they come to. More model.passes end nearer."
        )
    if isinstance(program.levels[0], StepsLevel) and len(program.levels) > 1:
        yield (
            "Each level of the schedule has a share of the budget. Where nothing drifts, the later "
            "fits of a chain add noise: one fit of as many records, erm.output_perturbation or "
            "erm.independent_batches with a larger block, is nearer."
        )
    if program.cut.users:
        yield shared_note(program.presence)


def refused(classes: bool) -> Iterator[str]:
    """What of an event does not count."""
    if classes:
        yield "a target that is none of the classes counts as missing"


def shortened(norm: float) -> str:
    """What a bound of features does."""
    return (
        f"Features of a scaled l2 norm above {norm:g} are shortened to it, and counted as clipped."
    )


def warnings(program: BlockProgram) -> Iterator[str]:
    """What to know before running it."""
    mebibytes = program.state_bytes() / 2**20
    yield (
        f"Rows are kept while a fit may read them: {program.row_bytes} bytes each, up to "
        f"{mebibytes:,.1f} MiB a key."
    )
    if isinstance(program.cut, ByCount):
        yield (
            "Blocks are of records, in the order of tick and id: model_of reveals how many events "
            "a key has so far. Events without an id are refused."
        )


def shared_note(presence: Participation) -> str:
    """What rows of a user share, and how many blocks noise is for."""
    blocks = f"{presence.blocks:,} block{'s' if presence.blocks > 1 else ''}"
    return (
        "All events of a user in a block weigh as much as one: their mean. A user in a period "
        f"is in {blocks} of a key at most, and in {presence.cells:,} of all keys, which noise "
        "is for; fewer ticks a user, or longer blocks, take less of it."
    )
