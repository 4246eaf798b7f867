"""Starts a Python worker where a runner asks for one as a process of this machine.

Beam's container images begin with a small program that asks the runner's provision service where
everything is and then runs the worker; this is the same for ``--environment_type=PROCESS``. The
runner calls it with ``--id=ID --provision_endpoint=HOST:PORT``. Installed it is ``weir-worker``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE = 60.0
"""Seconds to wait for the provision service."""
ALLOCATION = {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""What a worker is started with where its surroundings say nothing else. Its bundles come in a
dozen threads that come and go. Each would have an arena of its own in the C library, and a heap in
Arrow's allocator, that keep what their largest bundle took: the worker grows for hours."""


def environment_config(folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """The value of ``--environment_config`` for workers on this machine, of this very Python.

    A runner starts a program without arguments of its own, so one is written into ``folder``.

    Args:
      folder: where to; kept as long as the job may start workers.
      environment: variables of the workers. They are part of the job that the runner stores and
        shows: nothing secret belongs there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "weir-worker"
    path = os.pathsep.join(str(Path(entry or ".").absolute()) for entry in sys.path)
    new = program.with_suffix(f".{os.getpid()}")
    allocation = (f'export {name}="${{{name}:-{value}}}"\n' for name, value in ALLOCATION.items())
    new.write_text(
        "#!/bin/sh\n"
        f"export PYTHONPATH={shlex.quote(path)}\n"
        f"{''.join(allocation)}"
        f'exec {shlex.quote(sys.executable)} -m weir.pipelines.engines.worker "$@"\n'
    )
    new.chmod(0o755)
    new.replace(program)
    return json.dumps({"command": str(program.absolute()), "env": dict(environment or {})})


def provisioned(worker: str, endpoint: str) -> dict[str, str]:
    """The variables that Beam's worker reads, as the provision service tells them."""
    import grpc
    from apache_beam.portability.api import beam_provision_api_pb2 as messages
    from apache_beam.portability.api import beam_provision_api_pb2_grpc as services
    from google.protobuf import json_format, text_format

    with grpc.insecure_channel(endpoint) as channel:
        grpc.channel_ready_future(channel).result(timeout=PATIENCE)
        info = (
            services.ProvisionServiceStub(channel)
            .GetProvisionInfo(messages.GetProvisionInfoRequest(), metadata=(("worker_id", worker),))
            .info
        )
    results = {
        "WORKER_ID": worker,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.control_endpoint),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    if info.HasField("status_endpoint"):
        results["STATUS_API_SERVICE_DESCRIPTOR"] = text_format.MessageToString(info.status_endpoint)
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a worker until its runner lets it go."""
    parser = argparse.ArgumentParser(prog="weir-worker", description=__doc__)
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    known, _ = parser.parse_known_args(arguments)
    os.environ.update(provisioned(known.id, known.provision_endpoint))
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


if __name__ == "__main__":
    main()
