"""``weir diff A B``: what changes between two plans, field by field, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig
from weir.pipelines.graph.checks import plan_under
from weir.pipelines.ledger.reservations import look
from weir.pipelines.results.plan_file import ABSENT, changed_fields
from weir.pipelines.terminal import bytes_text, count, heading, indent, number, span, table


def compared(
    a: Mapping[str, Any] | None, b: Mapping[str, Any] | None
) -> Iterator[tuple[str, float | None, float | None]]:
    """Epsilon of a user in several periods in two plans; None: there is no such guarantee."""
    reported = [
        {row["count"]: row["epsilon"] for row in (item or {}).get("periods", ())} for item in (a, b)
    ]
    for periods in sorted({*reported[0], *reported[1]}):
        label = f"epsilon of a user in {count(periods, 'period')}"
        yield label, reported[0].get(periods), reported[1].get(periods)
    first, second = (((item or {}).get("every_period") or {}).get("epsilon") for item in (a, b))
    if first is not None or second is not None:
        yield "epsilon of a user present in every period", first, second


def compare(a: JobConfig, b: JobConfig) -> dict[str, Any]:
    """Two configs -> what differs, JSON-able.

    Raises:
      ConfigError: one of the two cannot be planned.
    """
    plan_a, plan_b = plan_under(a), plan_under(b)
    facts_a, facts_b = plan_a.to_json(), plan_b.to_json()
    same = plan_a.digest == plan_b.digest
    same_layout = facts_a.get("layout") == facts_b.get("layout")
    return {
        "fields": changed_fields(a, b),
        "same_plan": same,
        "same_state": same and same_layout,
        "digest": [plan_a.digest, plan_b.digest],
        "version": [plan_a.version, plan_b.version],
        "guarantee": [facts_a["guarantee"], facts_b["guarantee"]],
        "mechanism": [chosen(facts_a), chosen(facts_b)],
        "state_bytes_per_key": [facts_a["state_bytes_per_key"], facts_b["state_bytes_per_key"]],
        "user": [facts_a["user"], facts_b["user"]],
        "expiration": [facts_a["expiration"], facts_b["expiration"]],
        "releases": changed_releases(plan_a, plan_b),
        "sums": [inner_noise(facts_a), inner_noise(facts_b)],
        "meaning": meaning(same, same_layout, plan_a, plan_b),
        "notes": footnotes(plan_a, plan_b),
        **({"ledger": budgets((a, plan_a), (b, plan_b))} if a.ledger or b.ledger else {}),
    }


def budgets(*sides: tuple[JobConfig, Plan]) -> list[dict[str, Any] | None]:
    """How the ledger of each stands for it; in one scope, for B next to A."""
    results: list[dict[str, Any] | None] = []
    for job, plan in sides:
        first_job, first_plan = sides[0]
        item, other = job.ledger, first_job.ledger
        same = (
            item is not None
            and other is not None
            and job is not first_job
            and (item.kind, item.value, item.scope) == (other.kind, other.value, other.scope)
        )
        beside = first_plan if same and plan.digest != first_plan.digest else None
        reported = None if item is None else look(item, plan, beside).to_json()
        results.append(None if reported is None else {**reported, "beside": beside is not None})
    return results


def changed_releases(a: Plan, b: Plan) -> list[dict[str, Any]]:
    """Every release of either plan with the worst error of its noise in both, as ``weir plan`` has
    it (None: not there, or no noise that adds up), and the mark of its footnote."""
    results: dict[tuple[str, int | None], list[float | None]] = {}
    there: dict[tuple[str, int | None], list[bool]] = {}
    marks: dict[tuple[str, int | None], str] = {}
    for place, plan in enumerate((a, b)):
        ticks = plan.ticks_to_look_at()
        for info in plan.outputs:
            stddev, mark = plan.config.algorithm.expected_error(info, ticks)
            spot = (info.name, info.over)
            results.setdefault(spot, [None, None])[place] = (
                stddev if math.isfinite(stddev) else None
            )
            there.setdefault(spot, [False, False])[place] = True
            marks[spot] = marks.get(spot) or mark
    return [
        {
            "name": name,
            "over": over,
            "released": there[name, over],
            "stddev_worst": pair,
            "mark": marks[name, over],
            "ratio": ratio(pair),
        }
        for (name, over), pair in results.items()
    ]


def footnotes(*plans: Plan) -> list[str]:
    """What the marks of the releases mean."""
    notes = (note for plan in plans for note in plan.notes)
    return list(dict.fromkeys(note for note in notes if note.startswith("*")))


def inner_noise(facts: Mapping[str, Any]) -> dict[str, float]:
    """Worst noise of the private sums that a model follows: they are not released themselves."""
    released = {release["name"] for release in facts["releases"]}
    row = next((row for row in facts["alternatives"] if row["chosen"]), None)
    named = {} if row is None else row["stddev_worst"]
    results = {name.partition(" over=")[0]: worst for name, worst in named.items()}
    return {name: worst for name, worst in results.items() if name not in released}


def ratio(pair: list[float | None]) -> float | None:
    """B over A; None where one is absent or 0."""
    first, second = pair
    if first is None or second is None or first == 0:
        return None
    return second / first


def chosen(facts: Mapping[str, Any]) -> str | None:
    """Name of the mechanism a plan uses."""
    return next((row["mechanism"] for row in facts["alternatives"] if row["chosen"]), None)


def meaning(same: bool, same_layout: bool, a: Plan, b: Plan) -> list[str]:
    """What the difference means for someone who wants to move from A to B."""
    if same and same_layout:
        return [
            "The plans are the same: with the same secret and the same events both give the same "
            "bytes, B can go on from A's folder and state, and running both costs nothing more."
        ]
    if same:
        return [
            "The releases are the same, key by key: with the same secret, running both costs "
            "nothing more. The keys or blocks differ, so stored state and a folder of results do "
            "not carry over: give B a folder of its own."
        ]
    epsilon = a.guarantee.epsilon + b.guarantee.epsilon
    delta = a.guarantee.delta + b.guarantee.delta
    return [
        "The plans differ, so noise is not shared: even with one secret, B draws its own.",
        "State and folders do not carry over: B starts from its first tick in its own folder.",
        f"{_who(a, b)} that both release is protected by both guarantees together: at most epsilon "
        f"{number(epsilon)}, delta {delta:g}, within the shorter of the two windows.",
    ]


def _who(a: Plan, b: Plan) -> str:
    """What both guarantee to protect."""
    if a.person is None and b.person is None:
        return "An event"
    if a.person is not None and b.person is not None and a.person.periods == b.person.periods:
        return "A user in a period"
    return "An event (not a user: only one of the plans, or another period, protects users)"


def render(result: Mapping[str, Any], names: tuple[str, str], out: Console) -> None:
    """Prints the comparison for a person."""
    out.print(Text(f"A = {names[0]}\nB = {names[1]}"))
    out.print(heading("Fields"))
    if result["fields"]:
        rows = table("field", "A", "B")
        for row in result["fields"]:
            rows.add_row(row["field"], _shown(row["a"]), _shown(row["b"]))
        out.print(indent(rows))
    else:
        out.print(Text("  none"))
    out.print(heading("Effects"))
    rows = table("", "A", "B", "B / A", right=("A", "B", "B / A"))
    first, second = result["guarantee"]
    for label, key in (("epsilon", "epsilon"), ("delta", "delta")):
        rows.add_row(label, f"{first[key]:g}", f"{second[key]:g}", _times(first[key], second[key]))
    rows.add_row("unit", first["unit"], second["unit"], "")
    for label, *pair in compared(*result["user"]):
        rows.add_row(
            label, *(ABSENT if item is None else number(item) for item in pair), _ratio_text(pair)
        )
    rows.add_row("protected", *(_window(g["window"]) for g in (first, second)), "")
    rows.add_row("mechanism", *(str(name) for name in result["mechanism"]), "")
    small, large = result["state_bytes_per_key"]
    rows.add_row("state per key", bytes_text(small), bytes_text(large), _times(small, large))
    first, second = result["sums"]
    for name in dict.fromkeys([*first, *second]):
        pair = [sums.get(name) for sums in (first, second)]
        shown = [ABSENT if value is None else number(value) for value in pair]
        rows.add_row(f"noise of the sum of {name.removesuffix('s')}s", *shown, _ratio_text(pair))
    for release in result["releases"]:
        pair = release["stddev_worst"]
        if all(release["released"]) and pair == [None, None]:
            continue  # what a model releases has no noise that adds up
        shown = [
            ABSENT if not there else "-" if value is None else number(value) + release["mark"]
            for value, there in zip(pair, release["released"], strict=True)
        ]
        name = f"noise of {release['name']}, {span(release['over'])}"
        rows.add_row(name, *shown, _ratio_text(pair))
    rows.add_row("version of the plan", *(str(version) for version in result["version"]), "")
    rows.add_row("plan", *(digest[:12] for digest in result["digest"]), "")
    out.print(indent(rows))
    for note in result["notes"]:
        out.print(indent(Text(note, style="dim")))
    out.print(heading("What that means"))
    reported = [
        f"Budget of {budget['scope']}, {name}{' next to A' if budget['beside'] else ''}: "
        f"{budget['words']}."
        for name, budget in zip("AB", result.get("ledger", (None, None)), strict=True)
        if budget is not None
    ]
    for line in (*result["meaning"], *reported):
        out.print(indent(Text(f"- {line}")))


def _shown(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, list) and len(value) > 8:
        return f"{', '.join(str(item) for item in value[:6])}, ... ({len(value):,})"
    return str(value)


def _ratio_text(pair: list[float | None]) -> str:
    factor = ratio(pair)
    return "" if factor is None else f"{factor:.3g} x"


def _window(window: int | None) -> str:
    return "for ever" if window is None else f"for {count(window, 'tick')}"


def _times(first: float, second: float) -> str:
    if first == 0 or not math.isfinite(second / first):
        return ""
    return f"{second / first:.3g} x"
