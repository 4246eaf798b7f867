"""Tests of kernels where nothing was compiled: skipped, and in continuous integration failed."""

from __future__ import annotations

import os

import pytest

from dpcore.native import kernels

needs_kernels = pytest.mark.skipif(
    kernels is None and not os.environ.get("CI"),
    reason="no compiler was at hand when Weir was installed",
)
