"""``python -m weir.pipelines.engines.install NAME|all``: fills the cache; NAME is one of GROUPS.

Several are installed side by side. Exit 0 when all are there, 1 when one failed (the reason is on
stderr). The paths are printed on stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from weir.dpcore.config.section import nearest
from weir.dpcore.errors import WeirError
from weir.pipelines.engines import azurite, flink_config, job_server, kafka, servers
from weir.pipelines.engines.tools import Component, say

GROUPS: dict[str, tuple[Component, ...]] = {
    "prism": (job_server.PRISM,),
    "flink": (flink_config.COMPONENT, job_server.COMPONENT),
    "pubsub": (servers.PUBSUB,),
    "kafka": (kafka.COMPONENT,),
    "buckets": (servers.BUCKETS, azurite.COMPONENT),
}
"""What each name of ``make`` puts into the cache."""


def install(components: Sequence[Component]) -> list[str]:
    """Installs components side by side and returns what went wrong, one text each."""
    if len(components) == 1:
        return [text for text in (_one(components[0]),) if text]
    with ThreadPoolExecutor(len(components)) as pool:
        return [text for text in pool.map(_one, components) if text]


def _one(component: Component) -> str | None:
    try:
        path = component.install()
    except (WeirError, OSError) as error:
        return f"{component.name}: {error}"
    print(path, flush=True)
    return None


def main(names: Sequence[str]) -> int:
    """The command. ``names``: of GROUPS, or ``all``."""
    known = [*GROUPS, "all"]
    for name in names or [""]:
        if name not in known:
            say(f"no component {name!r}; {nearest(name, known)}")
            return 2
    chosen = list(GROUPS) if "all" in names else list(dict.fromkeys(names))
    faults = install([component for name in chosen for component in GROUPS[name]])
    for text in faults:
        say(f"failed: {text}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
