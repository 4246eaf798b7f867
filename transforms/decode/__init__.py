"""Decoding: bytes or values in memory -> canonical batches of events, and dead letters.

Each record is read alone: no other record decides what becomes of it. ``canonical.assemble`` makes
typed columns of what a reader gives, by the roles that ``schema.EventSchema`` states. Each
container has a module (``csv``, ``ndjson``, ``parquet``, ``arrow``, ``avro``, ``memory_events``);
``input_validation`` tells wrong input from the config, and ``beam_events`` has the DoFns.
"""
