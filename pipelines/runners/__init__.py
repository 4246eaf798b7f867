"""What a runner needs and reports: options, the state folder, Flink, Dataflow.

``pipeline`` makes the pipeline of a job, ``options`` its options, ``state_folder`` where a
stream goes on from; ``local`` runs a job without Beam; ``flink``, ``submitted`` and ``ending``
follow a job on Flink, ``dataflow`` one on Dataflow.
"""

__all__ = [
    "dataflow",
    "ending",
    "flink",
    "flink_options",
    "local",
    "options",
    "pipeline",
    "state_folder",
    "submitted",
]
