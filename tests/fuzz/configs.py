"""The config loader: whatever a file holds, there is a plan, or an error that says what to write.

An input is the text of a config. Settings that read a file or ask a server are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.target import Target, require
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.config import job as jobs

DOCS = Path(__file__).parents[2] / "docs"
CLOCK_TEXT = "clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T04:00:00Z}\n"
SMALL = "name: a\nversion: 1\nschema: {time: t, id: i}\n" + CLOCK_TEXT
PRIVACY = "privacy: {epsilon: 1, delta: 1e-6, protect_for: 2 ticks}\n"
BASE = SMALL + PRIVACY + "key: {column: k, declared: [a, b]}\naggregates: {n: {count: events}}\n"

ODD = (
    "",
    "\0",
    "- a",
    "a: &a [*a]",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
    "[" * 80,
    "{" * 80,
    "a: ${NAME}",
    "? [a]\n: b",
    "!!python/object:os.system x",
    "%YAML 1.1\n---\n" + BASE,
    BASE + BASE,
    BASE + "---\n" + BASE,
    BASE.replace("1e-6", ".nan"),
    BASE.replace("1e-6", "-.inf"),
    BASE.replace("epsilon: 1", "epsilon: 1e400"),
    BASE.replace("epsilon: 1", "epsilon: " + "9" * 5000),
    BASE.replace("epsilon: 1", "epsilon: 0x" + "f" * 400),
    BASE.replace("version: 1", "version: true"),
    BASE.replace("name: a", 'name: "\\ud800"'),
    BASE.replace("[a, b]", "[a, a]"),
    BASE.replace("[a, b]", "[1, null, {}]"),
    BASE.replace("[a, b]", "[]"),
    BASE.replace("2 ticks", "99999999999999999999 ticks"),
    BASE.replace("2 ticks", "0 ticks"),
    BASE.replace("1h,", "-1h,"),
    BASE.replace("1h,", "999999999999999h,"),
    BASE.replace("2024-01-01T00", "0000-01-01T00"),
    BASE.replace("2024-01-01T04", "9999-12-31T23"),
    BASE.replace("{count: events}", "{sum: v, clip: [1e308, -1e308]}"),
    BASE.replace("{count: events}", "{sum: v, clip: [-1e308, 1e308]}"),
    BASE.replace("{count: events}", "{sum: v, clip: [0, .inf]}"),
    BASE.replace("{count: events}", "{sum: v, clip: [0, 5e-324]}"),
    BASE.replace("{count: events}", "{mean: v, clip: [0, 1], over: [all, 0, -1, 2, 2]}"),
    BASE.replace("{count: events}", "{quantile: v, range: [0, 1], q: [0.5, 2]}"),
    BASE.replace("{count: events}", "null"),
    BASE + "where: \"a > 'b' and (\"\n",
    BASE + "where: " + "(" * 300 + "\n",
    BASE + "where: " + "not " * 2000 + "a\n",
    BASE + "mechanism: {continual_sum: blt, pure: 7}\n",
    BASE + "deduplicate: {horizon: -1h}\n",
    BASE + "schema: {time: {column: t, format: '%Q%'}}\n",
)


def seeds() -> list[bytes]:
    """Configs of the documentation, and odd ones."""
    texts = []
    for page in sorted(DOCS.rglob("*.md")):
        texts += [
            block
            for block in re.findall(r"```yaml[^\n]*\n(.*?)```", page.read_text(), re.S)
            if len(block) < 1500
        ]
    return [text.encode("utf-8", "surrogatepass") for text in (BASE, *ODD, *texts[:25])]


LINKED = ("lookup",)
"""Sections that open a file or a server while a plan is made."""


def _check(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return  # ``load`` refuses it by name
    try:
        job = jobs.loads(text, environ={"NAME": "x"})
        if any(getattr(job, name) is not None for name in LINKED):
            return
        plan = Plan.from_config(job.plan_config())
    except ConfigError as error:
        words = str(error)
        require(bool(error.field) and len(error.remedy) > 10, "an error has field, remedy", words)
        require(words.isprintable() or "\n" in words or "\\" in words, "words are text", words)
        return
    require(len(plan.digest) == 64, "a plan has a digest")
    require(Plan.from_config(job.plan_config()).digest == plan.digest, "a plan is the same again")


def targets() -> dict[str, Callable[[], Target]]:
    """Name -> target."""
    names = ["epsilon", "delta", "count", "sum", "mean", "quantile", "clip", "over", "all", "ticks"]
    names += ["model", "algorithm", "ranges", "features", "target", "unit: user", "contributions"]
    names += [": ", "{", "}", "[", "]", "&a", "*a", "${NAME}", "1e400", ".nan", "null", "groups"]
    return {"config.plan": lambda: Target(_check, seeds, [name.encode() for name in names])}
