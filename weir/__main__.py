"""``python -m weir``: the command ``weir``."""

from weir.pipelines.cli.main import main

if __name__ == "__main__":
    main(prog_name="weir")
