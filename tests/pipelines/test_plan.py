"""``weir plan``: the page for a person, and the JSON for a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.pipelines.terminal import bytes_text, count, long_time, number, span

FIELDS = {
    "name", "digest", "algorithm", "guarantee", "expiration", "releases", "alternatives",
    "state_bytes_per_key", "keys", "blocks", "ticks", "warnings",
}  # fmt: skip


def page(weir: Weir, small: Path, *sets: str) -> str:
    result = weir("plan", small, "--full", *(word for one in sets for word in ("--set", one)))
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_json_has_the_fields_that_scripts_hang_on(weir: Weir, small: Path) -> None:
    facts = json.loads(weir("plan", small, "--json").stdout)
    assert set(facts) >= FIELDS
    assert set(facts["guarantee"]) == {
        "epsilon", "delta", "relation", "unit", "window", "statement",
    }  # fmt: skip
    assert [row["ticks"] for row in facts["expiration"]] == [8, 16, 80, 800]
    for row in facts["expiration"]:
        assert set(row) == {"ticks", "epsilon", "delta"}
    assert [row["name"] for row in facts["releases"]] == ["visits", "paid"]
    for row in facts["releases"]:
        assert set(row) >= {"name", "over", "dimension", "sensitivity", "stddev_worst"}
    assert sum(row["chosen"] for row in facts["alternatives"]) == 1
    assert (facts["keys"], facts["ticks"], facts["blocks"]) == (2, 24, 16)


def test_the_page_says_what_a_lawyer_asks(weir: Weir, small: Path) -> None:
    text = page(weir, small)
    assert "identical except that" in text and "present" in text and "absent" in text
    assert "epsilon, delta 1, 1e-06" in text
    assert "protection horizon 8 ticks (8 hours)" in text
    assert "factor of 2.718" in text
    for part in ("Mechanisms, priced", "What is released", "Refused", "state"):
        assert part in text
    assert "sum of amount" in text
    assert "moved into [0, 50]" in text


def test_the_short_page_has_the_guarantee_the_errors_and_what_to_know(
    weir: Weir, small: Path
) -> None:
    """A mechanism whose protection ends, which is a warning: the short page has it."""
    few = ("--set", "mechanism.continual_sum=window_tree", "--set", "clock.delay=1h")
    few += ("--set", "schema.arrival=seen", "--set", "clock.end=2024-02-01T00:00:00Z")
    short, full = (weir("plan", small, *few, *more).stdout for more in ((), ("--full",)))
    parts = {part.splitlines()[0]: part.splitlines()[1:] for part in short.split("\n\n")}
    assert list(parts) == [
        short.splitlines()[0],
        "The guarantee",
        "What is released, and how exact it is",
        next(line for line in parts if line.startswith("  name")),
        "Not covered by the guarantee",
        "Warnings",
        next(line for line in parts if line.startswith("  --full adds: the guarantee in words;")),
    ]
    assert len(parts["The guarantee"]) <= 8
    assert "no protection after it" in short and "no protection at all" not in short
    told = " ".join(short.partition("Warnings")[2].split())
    assert "protects nothing after the window" in told, "no warning is left out"
    assert "the guarantee holds for each delivery" not in told
    for line in short.partition("Not covered")[0].splitlines():
        assert line.rstrip() in full, line
    added = " ".join(short.rpartition("--full adds: ")[2].split()).rstrip(".").split("; ")
    assert len(added) > 4
    titles = {line.lower() for line in full.splitlines()}
    assert {name.lower() for name in added} <= titles


def test_later_lines_begin_below_the_first(weir: Weir, small: Path) -> None:
    result = weir("plan", small, "--set", "schema.id=null", "--full")
    assert result.exit_code == 0
    for title in ("The guarantee in words", "Refused, and counted", "Warnings"):
        lines = result.stdout.partition(title)[2].partition("\n\n")[0].splitlines()[1:]
        assert lines and all(line.startswith("  ") for line in lines), title
        if title == "Warnings":
            assert any(line.startswith("    ") for line in lines), "below the text of the item"
            assert all(line.startswith(("  - ", "    ")) for line in lines)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_anywhere"])
def test_neighbours_follow_the_relation(weir: Weir, small: Path, relation: str) -> None:
    text = page(weir, small, f"privacy.relation={relation}")
    assert f"one event ({relation})" in text


def test_a_window_tree_protects_nothing_after_the_window_and_says_so(
    weir: Weir, small: Path
) -> None:
    text = page(
        weir, small, "mechanism.continual_sum=window_tree", "clock.end=2024-02-01T00:00:00Z"
    )
    assert text.count("none: no protection") == 3
    assert "no protection at all" in text
    assert "Warnings" in text


def test_graded_expiration_is_a_table(weir: Weir, small: Path) -> None:
    text = page(weir, small, "mechanism=null", "clock.end=2024-06-01T00:00:00Z")
    for ticks in ("8 ticks", "16 ticks", "80 ticks", "800 ticks"):
        assert ticks in text
    assert "fades by degrees" in text


def test_a_schedule_of_releases_is_shown(weir: Weir, small: Path) -> None:
    assert "new every 2 ticks, repeated in between" in page(
        weir, small, "release_every=2", "clock.end=2024-01-03T00:00:00Z"
    )


def test_for_ever(weir: Weir, small: Path) -> None:
    text = page(weir, small, "privacy.protect_for=all")
    assert "protection horizon for ever: the guarantee does not expire" in text


def test_means_depend_on_how_many(weir: Weir, small: Path) -> None:
    text = page(weir, small, "aggregates={m: {mean: amount, clip: [0, 50]}}")
    assert "at 1,000 events in the span" in text


def test_pure_epsilon(weir: Weir, small: Path) -> None:
    text = page(weir, small, "privacy.delta=0", "mechanism=null")
    assert "epsilon, delta 1, 0" in text
    assert "k norm" in text


def test_it_needs_neither_source_nor_sink_nor_secret(weir: Weir, small: Path) -> None:
    assert "The guarantee" in page(weir, small, "source=null", "sink=null")


@pytest.mark.slow
def test_ten_thousand_keys_are_counted_not_listed(weir: Weir, small: Path) -> None:
    keys = [f"k{i}" for i in range(10_000)]
    text = small.read_text().replace("[north, south]", json.dumps(keys))
    small.write_text(text)
    result = weir("plan", small, "--full")
    assert "10,000" in result.stdout and "k77" not in result.stdout


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (1, "1"), (0.5, "0.5"), (1234.5, "1,234"), (123456.7, "123,457"),
        (0.00123456, "0.001235"), (1e-9, "1e-09"), (-2.5, "-2.5"), (1e20, "1e+20"),
        (float("inf"), "unbounded"), (None, "unbounded"), (float("nan"), "-"), (12.0, "12"),
        (99999, "99,999"),
    ],
)  # fmt: skip
def test_numbers(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_words() -> None:
    assert [count(1, "tick"), count(2000, "tick")] == ["1 tick", "2,000 ticks"]
    assert [bytes_text(96), bytes_text(4096), bytes_text(2_000_000)] == ["96 B", "4.1 kB", "2.0 MB"]
    assert [span(None), span(1), span(7)] == ["since the start", "each tick alone", "last 7 ticks"]
    hour = 3_600_000_000
    assert [long_time(hour), long_time(48 * hour), long_time(24 * hour * 365 * 10)] == [
        "60 minutes", "2 days", "10.0 years",
    ]  # fmt: skip
