"""A source over a topic of Kafka: ``source.ReadKafka`` reads partitions from the offsets of a
checkpoint (``reader``, ``position``), decodes values (``values``), and follows what brokers say
(``watermark``).
"""
