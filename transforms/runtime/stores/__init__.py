"""Where files lie: a disk, Google Cloud Storage, S3."""
