"""The steps of the data flow as plain objects, without Beam.

An operator has ``process`` over batches and ``finish`` behind the last one, and keeps its state
between them: Filter, DropDuplicates or BoundUsers, Accumulate or AccumulateRows, BlockState (Tick),
JobQueue and Assembly (Train), Solve, Write. ``transforms.local`` drives them in one process;
``transforms.beam`` wraps them, or the rules that they share, into DoFns. How a step's state is
stored as bytes lies here too (``block_cells``, ``timed_cells``, ``user_cells``, ...).
"""
