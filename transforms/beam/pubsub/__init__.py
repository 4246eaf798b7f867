"""A source over a Pub/Sub subscription: ``read.ReadPubSub`` pulls, decodes (``messages``), keeps
leases until a checkpoint is safe, follows a watermark and ends when the job is drained.
"""
