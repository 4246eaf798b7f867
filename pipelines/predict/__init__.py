"""``weir predict``: ``predict.predict`` writes a file of events again with predictions of released
models, and counts how many are right where the file has the target.
"""
