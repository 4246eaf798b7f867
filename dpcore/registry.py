"""The mechanisms and models by name. A new continual sum is one file in dpcore/continual and one
line here; a new model is one file and an entry in MODELS.

A class that is listed here is a ``ContinualSum`` with, besides its abstract methods:
  name: ClassVar[str], the name below.
  signed: ClassVar[bool], whether columns of its strategy can have negative inner products; pricing
    rests on it, so that a class that does not state it itself is no mechanism.
  kinds: ClassVar[tuple[str, ...]], the noises it can use: gaussian, discrete_gaussian, k_norm.
  serves(overs) -> bool: classmethod, whether it can serve such sums at all.
  calibrated(*, dimension, scales, sensitivity, overs, window, horizon, budget, **options) -> Self:
    classmethod; the least noise whose loss(window) is at most the budget (a ``Loss``; its kind
    decides the noise). ConfigError when it cannot serve, an option it does not have included.
  title, source: ClassVar[str], for people.
  settings: ClassVar[dict[str, str]], field of the config's mechanism section -> what it does.
  response(n) -> (n, n) array: only where ``materialize`` describes the noise of something else
    than running totals: the clean outputs are this matrix times the leaves.
  tight: ClassVar[bool] = False, only where the stated loss is a bound that no record attains.
tests/contracts runs over every mechanism that is listed.

A model compiles the ``model`` section: compile(PlanConfig) -> (Program, (Alternative, ...)),
the chosen one marked; ConfigError where it cannot serve.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpcore.errors import ConfigError, WeirError

_FILES = {
    "blt": "dpcore.continual.blt:Blt",
    "toeplitz": "dpcore.continual.toeplitz:Toeplitz",
    "sliding": "dpcore.continual.sliding:Sliding",
    "independent": "dpcore.continual.independent:Independent",
    "tree": "dpcore.continual.tree:Tree",
    "window_tree": "dpcore.continual.window_tree:WindowTree",
    "merging_tree": "dpcore.continual.merging_tree:MergingTree",
    "hybrid": "dpcore.continual.hybrid:Hybrid",
}


class Registry(Mapping[str, Any]):
    """Name -> class; a file is imported when its class is first asked for."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def __getitem__(self, name: str) -> Any:
        module, _, cls = self._files[name].partition(":")
        return getattr(importlib.import_module(module), cls)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


FACTS = ("name", "signed")
"""What a continual sum must state in its own class: none is inherited, none has a default."""


class _Sums(Registry):
    """Continual sums, each with its privacy facts.

    Raises:
      WeirError: a class leaves one out.
    """

    def __getitem__(self, name: str) -> Any:
        cls = super().__getitem__(name)
        missing = [fact for fact in FACTS if fact not in vars(cls)]
        if missing:
            raise WeirError(f"{cls.__name__} does not state {', '.join(missing)}.")
        return cls


CONTINUAL_SUMS: Mapping[str, Any] = _Sums(_FILES)
"""Name in the config (mechanism.continual_sum) -> subclass of ContinualSum."""


SOLVERS: Mapping[str, Any] = Registry(
    {
        "noisy_projected_gradient": "dpcore.models.solvers.noisy_gradient:NoisyGradient",
        "noisy_sgd": "dpcore.models.solvers.noisy_sgd:NoisySgd",
    }
)
"""Name in the config (model.solver) -> private batch solver; dpcore/models/solvers/solver.py."""

COMMON = ("algorithm", "features", "target", "intercept", "ranges", "set")
"""Fields of the model section that every model reads."""

_LEARNS = ("loss", "clip.gradient", "clip.loss", "curvature", "centre", "cap")
_REGRESSES = (
    *("loss", "clip.features", "clip.target", "ridge", "solver", "tolerance", "steps"),
    *("error", "statistics", "over"),
)
_PROJECTS = (
    *("loss", "clip.features", "clip.target", "ridge", "tolerance", "steps", "statistics"),
    *("over", "projection", "inputs"),
)
_FITS = ("loss", "clip.gradient", "curvature", "centre", "cap", "rows", "iterations", "solver")


@dataclass(frozen=True)
class Model:
    """A learner that a config can name (``model.algorithm``).

    Attributes:
      compiler: module:function of the function that compiles it, imported when first called.
      title: in a few words. about: in a sentence or two. source: where it is from.
      noises: which noises it can use.
      reads: fields of the model section that it reads besides the common ones; a field of a section
        with a dot. Others are refused by name.
      many_targets: whether it can predict several columns at once.
      solvers: what model.solver may be. defaults: of fields whose default differs from the field's.
    """

    compiler: str
    title: str
    about: str
    source: str
    noises: tuple[str, ...] = ("gaussian", "discrete_gaussian", "k_norm")
    reads: tuple[str, ...] = ()
    many_targets: bool = False
    solvers: tuple[str, ...] = ("accelerated", "noisy_projected_gradient")
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def takes(self, field: str) -> bool:
        """Whether it reads a field of the model section, or any field of one."""
        return field in COMMON or any(field in (one, one.partition(".")[0]) for one in self.reads)

    def compile(self, config: Any) -> Any:
        """PlanConfig -> (Program, alternatives). Raises ConfigError."""
        module, _, function = self.compiler.partition(":")
        return getattr(importlib.import_module(module), function)(config)


MODELS: Mapping[str, Model] = {
    "online.follow_the_leader": Model(
        "dpcore.models.online.price:compile_learner",
        "window follow-the-leader, exact projection",
        "Each key's coefficients minimise the public curvature plus all clipped gradients so far, "
        "as a noisy running sum tells them, projected onto the set at every tick.",
        "Lou & Cheung 2020 (WDP-COCOP), corrected",
        reads=(*_LEARNS, "own_curvature", "weight"),
    ),
    "online.conditional_gradient": Model(
        "dpcore.models.online.price:compile_learner",
        "window follow-the-leader without projections",
        "One step of a local linear oracle a tick instead of a projection, with a certified "
        "distance to the leader: for sets that are dear to project onto.",
        "Lou & Cheung 2020 (WDP-COCOL), corrected; Garber & Hazan 2016",
        reads=(*_LEARNS, "own_curvature", "weight", "step"),
    ),
    "online.pftal": Model(
        "dpcore.models.online.price:compile_learner",
        "follow the approximate leader, over a full-history tree",
        "The baseline: exact projection, with the noise of a binary tree that covers the whole "
        "stream, whatever the window.",
        "Thakurta & Smith 2013",
        reads=(*_LEARNS, "own_curvature", "weight"),
    ),
    "online.pocg": Model(
        "dpcore.models.online.pocg:compile_pocg",
        "implicit gradient descent, noise on every iterate",
        "The baseline: steps shrink as 1/t, every released iterate has noise of its own, and the "
        "iterates without noise never leave.",
        "Jain, Kothari & Thakurta 2012",
        noises=("gaussian",),
        reads=_LEARNS,
    ),
    "online.pqftl": Model(
        "dpcore.models.online.pqftl:compile_pqftl",
        "follow the leader of squared losses, from noisy moments",
        "The baseline: running sums of the products of features and target, then the ridge "
        "solution, projected onto the set.",
        "Jain, Kothari & Thakurta 2012",
        reads=("loss", "curvature", "centre"),
    ),
    "regression.incremental": Model(
        "dpcore.models.regression.price:compile_incremental",
        "least squares of everything so far, from noisy moments",
        "Running sums of the products of features and targets, released jointly with noise; a "
        "model of everything so far is fitted to them at every tick, over the set.",
        "Kasiviswanathan, Nissim & Jin 2017 (PrivIncReg1), joint release",
        reads=_REGRESSES,
        many_targets=True,
    ),
    "regression.two_trees": Model(
        "dpcore.models.regression.two_trees:compile_two_trees",
        "the same over two trees with half of the budget each",
        "The baseline: the paper's own calibration, two full-history trees that must know the "
        "number of ticks.",
        "Kasiviswanathan, Nissim & Jin 2017 (PrivIncReg1), as printed",
        noises=("gaussian",),
        reads=tuple(name for name in _REGRESSES if name not in ("error", "over")),
    ),
    "regression.projected": Model(
        "dpcore.models.regression.projected_price:compile_projected",
        "least squares in many dimensions, from noisy moments in few",
        "Features are projected by a public random matrix, moments are released in the fewer "
        "dimensions, and the model of least size that they point to is lifted back: for sparse "
        "events and small sets.",
        "Kasiviswanathan, Nissim & Jin 2017 (PrivIncReg2), joint release",
        reads=_PROJECTS,
        many_targets=True,
        solvers=("accelerated",),
        defaults={"tolerance": 1e-7},
    ),
    "regression.erm": Model(
        "dpcore.models.erm.price:compile_erm",
        "any convex loss, fitted again every few ticks to all rows so far",
        "The rows of each key are kept, up to a public number; every tau ticks a private batch "
        "solver minimises their loss over the set, each time for a share of the budget.",
        "Kasiviswanathan, Nissim & Jin 2017 (PrivIncERM); Bassily, Smith & Thakurta 2014",
        reads=(*_FITS, "every"),
        solvers=tuple(SOLVERS),
        defaults={"curvature": 0.0, "solver": "noisy_projected_gradient"},
    ),
    "regression.naive": Model(
        "dpcore.models.erm.naive:compile_naive",
        "fitted again at every tick, by advanced composition",
        "The baseline: regression.erm with a run at every tick, each with its part of the budget "
        "by the theorem of advanced composition.",
        "Kasiviswanathan, Nissim & Jin 2017; Dwork, Rothblum & Vadhan 2010",
        noises=("gaussian",),
        reads=_FITS,
        solvers=tuple(SOLVERS),
        defaults={"curvature": 0.0, "solver": "noisy_projected_gradient"},
    ),
}
"""Name in the config (model.algorithm) -> how it is compiled, and what there is to say about it."""


@dataclass(frozen=True)
class Description:
    """What ``weir algorithms`` shows of a mechanism.

    Attributes:
      name: in the config. title: in a few words. about: in a sentence or two. source: where it is
        from.
      noises: which noises it can use. settings: fields of the config's mechanism section that it
        reads.
    """

    name: str
    title: str
    about: str
    source: str
    noises: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]


def describe(name: str) -> Description:
    """Describes a mechanism.

    Raises:
      ConfigError: there is none of that name.
    """
    if name not in CONTINUAL_SUMS:
        raise ConfigError(
            "mechanism.continual_sum", name, f"must be one of {sorted(CONTINUAL_SUMS)}."
        )
    cls = CONTINUAL_SUMS[name]
    about = (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")
    settings = {
        "continual_sum": f"{name}: take this mechanism whatever the plan would choose",
        "noise": f"one of {', '.join(cls.kinds)}",
        **getattr(cls, "settings", {}),
    }
    return Description(
        name,
        getattr(cls, "title", about),
        about,
        getattr(cls, "source", ""),
        tuple(cls.kinds),
        tuple(settings.items()),
    )
