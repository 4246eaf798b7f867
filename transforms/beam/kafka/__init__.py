"""A source over a topic of Kafka: ``source.ReadKafka`` reads partitions from the offsets of a
checkpoint (``reader``, ``position``). What needs no Beam lies in ``sources.kafka``.
"""
