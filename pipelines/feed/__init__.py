"""``weir feed``: ``synthetic`` makes events that fit a config, ``feed.read_batches`` replays
recorded ones, and ``feed.feed`` sends either to a ``targets.FeedTarget`` at a rate.
"""
