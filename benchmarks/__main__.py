"""The table of all ratios, and their guard: see ``benchmarks.harness``."""

from benchmarks.harness import table

if __name__ == "__main__":
    table()
