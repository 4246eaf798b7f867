"""The algorithms by name: each is one file, and one line here or an entry point of a package.

A continual sum is a ``ContinualSum`` (dpcore/continual/base.py) of that name, which may have
in addition:
  response(n) -> (n, n) array: only where ``materialize`` describes the noise of something else
    than running totals: the clean outputs are this matrix times the leaves. Where several sums have
    noise that is not that of differences, both have the rows of one sum after those of another.
  tight: ClassVar[bool] = False, only where the stated loss is a bound that no record attains.
tests/contracts runs over every one that is listed. An aggregate is an ``Aggregate``, a model a
``Model``, a batch solver a ``BatchSolver``; docs/contributors/extending.md shows how each is added.

Another package adds its own by entry points: group ``weir.algorithms.NAME``, NAME being that of the
registry below in lower case; ``NAME in the config = module:class``. Where a job runs on a cluster,
the package belongs on the workers too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.neighbours import family_of

_FILES = {
    "blt": "weir.dpcore.continual.blt:Blt",
    "ended": "weir.dpcore.continual.ended:EndedSum",
    "toeplitz": "weir.dpcore.continual.toeplitz:Toeplitz",
    "sliding": "weir.dpcore.continual.sliding:SlidingSum",
    "independent": "weir.dpcore.continual.independent:Independent",
    "tree": "weir.dpcore.continual.tree:Tree",
    "kary_tree": "weir.dpcore.continual.kary_tree:KaryTree",
    "kary_window": "weir.dpcore.continual.kary_window:KaryWindow",
    "window_tree": "weir.dpcore.continual.window_tree:WindowTree",
    "merging_tree": "weir.dpcore.continual.merging_tree:MergingTree",
    "hybrid": "weir.dpcore.continual.tree:Hybrid",
}


@cache
def installed(group: str) -> Mapping[str, str]:
    """Name -> module:class, of the entry points of a group in all installed packages.

    Raises:
      WeirError: two packages give one name to different things.
    """
    results: dict[str, str] = {}
    for entry in sorted(entry_points(group=group)):
        if results.setdefault(entry.name, entry.value) != entry.value:
            raise WeirError(f"two packages install {entry.name} as {group}; remove one of them.")
    return results


class Registry(Mapping[str, Any]):
    """Name -> class; a file is imported when its class is first asked for.

    Args:
      files: name -> module:class. group: of the entry points by which other packages add theirs.

    Attributes:
      own: names that this project brings, in order; those that other packages install follow, and
        never stand for one of these.
    """

    def __init__(self, files: Mapping[str, str], group: str) -> None:
        self._group = group
        self._files = files
        self.own = tuple(files)

    def _others(self) -> Mapping[str, str]:
        return installed(self._group)

    def __getitem__(self, name: str) -> Any:
        place = self._files[name] if name in self._files else self._others()[name]
        module, _, cls = place.partition(":")
        return getattr(importlib.import_module(module), cls)

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in self._others() if name not in self._files)

    def __len__(self) -> int:
        return len(list(iter(self)))


FACTS = ("name", "signed", "neighbours")
"""What a continual sum must state in its own class: none is inherited, none has a default."""


class Algorithms(Registry):
    """Algorithms, each with its neighbour family: without, nobody knows how to attack it.

    Raises:
      WeirError: a class, and its base, state none.
    """

    def __getitem__(self, name: str) -> Any:
        cls = super().__getitem__(name)
        family_of(cls)
        return cls


class Sums(Registry):
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


CONTINUAL_SUMS = Sums(_FILES, "weir.algorithms.continual_sums")
"""Name in the config (mechanism.continual_sum) -> subclass of ContinualSum. The plan tries its
``own``; another package's is taken where it is named, so that installing one changes no plan."""


AGGREGATES = Algorithms(
    {
        "count": "weir.dpcore.aggregates.counts:Count",
        "sum": "weir.dpcore.aggregates.moments:Sum",
        "mean": "weir.dpcore.aggregates.moments:Mean",
        "variance": "weir.dpcore.aggregates.moments:Variance",
        "histogram": "weir.dpcore.aggregates.counts:Histogram",
        "quantile": "weir.dpcore.aggregates.quantile:QuantileAggregate",
    },
    "weir.algorithms.aggregates",
)
"""Name in the config (a field of aggregates.NAME) -> subclass of Aggregate."""


SOLVERS = Algorithms(
    {
        "noisy_projected_gradient": "weir.dpcore.models.solvers.noisy_gradient:NoisyGradient",
        "noisy_sgd": "weir.dpcore.models.solvers.noisy_sgd:NoisySgd",
        "frank_wolfe": "weir.dpcore.models.solvers.frank_wolfe:FrankWolfe",
        "steps": "weir.dpcore.models.solvers.noisy_steps:NoisySteps",
    },
    "weir.algorithms.solvers",
)
"""Name in the config (model.solver) -> private batch solver; dpcore/models/solvers/solver.py."""

MODELS = Algorithms(
    {
        "online.follow_the_leader": "weir.dpcore.models.online.leader_model:LeaderModel",
        "online.conditional_gradient": (
            "weir.dpcore.models.online.leader_model:ProjectionFreeModel"
        ),
        "online.pftal": "weir.dpcore.models.online.leader_model:PftalModel",
        "online.pocg": "weir.dpcore.models.online.pocg:PocgModel",
        "online.pqftl": "weir.dpcore.models.online.pqftl:PqftlModel",
        "regression.incremental": (
            "weir.dpcore.models.regression.incremental_model:IncrementalModel"
        ),
        "regression.two_trees": "weir.dpcore.models.regression.incremental_model:TwoTreesModel",
        "regression.projected": "weir.dpcore.models.regression.projected_model:ProjectedModel",
        "regression.erm": "weir.dpcore.models.erm.incremental_model:ErmModel",
        "regression.naive": "weir.dpcore.models.erm.incremental_model:NaiveModel",
        "erm.output_perturbation": (
            "weir.dpcore.models.blocks.output_perturbation:OutputPerturbationModel"
        ),
        "erm.independent_batches": (
            "weir.dpcore.models.blocks.output_perturbation:IndependentBatchesModel"
        ),
        "erm.sliding_window": "weir.dpcore.models.blocks.sliding_window:SlidingWindowModel",
        "erm.multi_resolution": "weir.dpcore.models.blocks.multi_resolution:MultiResolutionModel",
        "erm.continual": "weir.dpcore.models.blocks.continual:ContinualModel",
        "erm.basic_continual": "weir.dpcore.models.blocks.continual:BasicContinualModel",
        "erm.sampled": "weir.dpcore.models.blocks.multi_resolution:SampledModel",
        "optimize.frank_wolfe": "weir.dpcore.models.optimize.frank_wolfe:FrankWolfeModel",
        "optimize.sfw_tree": "weir.dpcore.models.optimize.sfw_tree:SfwTreeModel",
        "optimize.sfw_polyhedral": "weir.dpcore.models.optimize.sfw_polyhedral:SfwPolyhedralModel",
        "optimize.phased_sgd": "weir.dpcore.models.optimize.phased_sgd:PhasedSgdModel",
    },
    "weir.algorithms.models",
)
"""Name in the config (model.algorithm) -> subclass of Model, the section that it reads."""


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
        **cls.settings,
    }
    return Description(
        name,
        cls.title,
        about,
        cls.source,
        tuple(cls.kinds),
        tuple(settings.items()),
    )
