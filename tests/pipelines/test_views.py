"""Views of a run's options: made once, of the same values, and not in copies."""

from __future__ import annotations

import copy
from typing import Any

from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
)

from weir.pipelines.runners.views import RunOptions

FLAGS = ["--streaming", "--experiments=one", "--impersonate_service_account=somebody", "--own=1"]


def test_a_view_is_made_once_and_shares_its_values() -> None:
    options: Any = RunOptions(FLAGS)
    standard = options.view_as(StandardOptions)
    assert options.view_as(StandardOptions) is standard and standard.streaming
    standard.streaming = False
    options.view_as(DebugOptions).add_experiment("two")
    assert standard.view_as(DebugOptions).experiments == ["one", "two"]
    assert not options.view_as(DebugOptions).view_as(StandardOptions).streaming


def test_it_says_what_beam_says() -> None:
    ours, theirs = RunOptions(FLAGS), PipelineOptions(FLAGS)
    for options in (ours, theirs):
        options.view_as(DebugOptions).experiments = ["two"]
    for drop in (False, True):
        result = ours.get_all_options(drop_default=drop, retain_unknown_options=True)
        assert result == theirs.get_all_options(drop_default=drop, retain_unknown_options=True)


def test_copies_have_views_of_their_own_and_no_account() -> None:
    options: Any = RunOptions(FLAGS)
    assert options.view_as(GoogleCloudOptions).impersonate_service_account == "somebody"
    assert options.view_as(DebugOptions).experiments == ["one"]
    copied = copy.deepcopy(options)
    assert copied.view_as(GoogleCloudOptions).impersonate_service_account is None
    copied.view_as(DebugOptions).experiments = ["two"]
    assert copied.get_all_options()["experiments"] == ["two"]
    assert options.view_as(DebugOptions).experiments == ["one"]
