"""The programs that a real stream runs on: installed by pinned version, started, watched, stopped.

Prism (Beam's portable runner in Go), Flink with a job server, and a Pub/Sub server that speaks the
real protocol. ``python -m weir.pipelines.engines.install NAME`` fetches or builds one into the
cache.
"""

__all__ = [
    "flink",
    "flink_config",
    "job_server",
    "processes",
    "servers",
    "tools",
    "worker",
]
