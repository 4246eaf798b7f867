"""``python -m weir``: the command ``weir``."""

from pipelines.cli.main import main

if __name__ == "__main__":
    main(prog_name="weir")
