"""What sources, sinks and ledgers have in common.

``connector`` has the base class, the registry of kinds with plugins of other packages, and
checks of names in the cloud; ``paths`` has checks of paths, ``references`` and
``secret_place`` secrets by reference, ``kafka`` what every connector of Kafka has, and ``pubsub``
what is asked of Pub/Sub.
"""

__all__ = ["connector", "kafka", "paths", "pubsub", "references", "secret_place"]
