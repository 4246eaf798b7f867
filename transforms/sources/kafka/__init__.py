"""A topic of Kafka without Beam: clients of brokers and their errors, values of records, where a
stream begins, and how far it has come. ``beam.kafka`` reads it.
"""
