"""Every version of the plan goes on meaning what it meant: digests and noise of each are kept."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from tests.contracts import other_processor, versions
from weir.dpcore.config.schema import PLAN_VERSION
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.registry import CONTINUAL_SUMS, MODELS, SOLVERS

CONFIGS = dict(versions.configs())
ONE = CONFIGS["chosen"]


@pytest.mark.slow
@pytest.mark.parametrize("version", versions.VERSIONS)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_version_keeps_its_digests_and_bits(name: str, version: str) -> None:
    plan = versions.planned(CONFIGS[name], int(version))
    assert plan.version == plan.canonical["version"] == plan.config.terms().version == int(version)
    assert versions.kept(CONFIGS[name], int(version)) == versions.golden()[name][version]


@pytest.mark.slow
def test_the_last_bits_of_exp_and_log_show_in_no_digest_and_no_release() -> None:
    x = np.array([0.3, 0.4])
    assert (other_processor.shifted(np.exp)(x) != np.exp(x)).all()
    command = [sys.executable, "-m", "tests.contracts.other_processor"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_every_registered_algorithm_is_kept() -> None:
    kept = versions.golden()
    assert list(kept) == list(CONFIGS)
    parts = {part for name in kept for part in name.split("/")}
    assert {*CONTINUAL_SUMS.own, *MODELS.own, *SOLVERS.own} <= parts


def test_without_a_version_the_newest_is_planned() -> None:
    newest = versions.planned(ONE, PLAN_VERSION)
    assert Plan.from_yaml(ONE).digest == newest.digest
    assert newest.to_json()["version"] == PLAN_VERSION
    digests = {versions.planned(ONE, int(version)).digest for version in versions.VERSIONS}
    assert len(digests) == PLAN_VERSION


@pytest.mark.parametrize("value", ["0", str(PLAN_VERSION + 1), "true", "1.0", '"1"'])
def test_what_is_no_version_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="must be a whole number") as caught:
        PlanConfig.from_yaml(f"version: {value}\n{ONE}")
    assert caught.value.field == "version"


def test_a_config_says_its_version_again_only_if_it_said_it() -> None:
    said = PlanConfig.from_yaml(f"version: 1\n{ONE}")
    assert PlanConfig.from_dict(said.to_dict()) == said and said.to_dict()["version"] == 1
    assert not re.search("version", str(PlanConfig.from_yaml(ONE).to_dict()))
