"""The public face: every name has an example in its docstring, and every example holds."""

from __future__ import annotations

import doctest

import pytest

import weir

CONSTANTS = {"RELEASE_SCHEMA"}
"""Names of values: they have no docstring of their own, and the README shows them."""


def failures(examples: doctest.DocTest) -> str:
    """What a run of examples says, "" where all of them hold."""
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=said.append)
    return "".join(said)


def test_every_name_is_there_and_is_told_once() -> None:
    assert sorted(weir.__all__) == sorted(weir._PLACES)
    assert {name for name in weir.__all__ if not hasattr(weir, name)} == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", *sorted({*weir.__all__} - CONSTANTS)])
def test_examples_hold(name: str) -> None:
    found = getattr(weir, name) if name else weir
    examples = doctest.DocTestParser().get_doctest(
        found.__doc__ or "", {}, f"weir.{name}", None, None
    )
    assert examples.examples, f"{name} has no example"
    said = failures(examples)
    assert not said, said
