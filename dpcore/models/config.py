"""The model section of a config: of the registered learners, the one that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from weir.dpcore.config.section import Section, nearest, refusal
from weir.dpcore.config.section_examples import field_names
from weir.dpcore.config.validation import Chosen
from weir.dpcore.registry import MODELS

if TYPE_CHECKING:
    from weir.dpcore.models.predictor import Predictor
else:  # imported where a config has a model: a plan of sums starts sooner
    Predictor = Section


def algorithm_of(written: Mapping[str, Any]) -> type[Predictor]:
    """The learner that a mapping names, which reads all that is set."""
    name = written.get("algorithm")
    if name is None:
        raise refusal(
            "algorithm",
            None,
            "is missing; write something like `algorithm: online.follow_the_leader`.",
        )
    if not isinstance(name, str):
        raise refusal("algorithm", name, 'must be text; put it in quotes, like "7".')
    if name not in MODELS:
        near = nearest(name, list(MODELS))
        raise refusal(
            "algorithm", name, f"is not a learner here; {near} `weir algorithms` tells more."
        )
    model: type[Predictor] = MODELS[name]
    for field, value in _settings(written):
        if not model.takes(field) and any(other.takes(field) for other in MODELS.values()):
            why = model.untaken.get(field, "remove it.")
            raise refusal(field, value, f"is not a setting of {name}; {why}")
    return model


def _settings(written: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Every field that is set, and those in a section of it with a dot."""
    result = list(written.items())
    for name, value in written.items():
        if isinstance(value, Mapping):
            result += [(f"{name}.{inner}", item) for inner, item in value.items()]
    return result


def _base() -> type[Predictor]:
    from weir.dpcore.models import predictor

    return predictor.Predictor


AnyModel = Annotated[
    Predictor,
    Chosen(algorithm_of, lambda: MODELS, lambda: field_names(_base()), "algorithm", base=_base),
]
