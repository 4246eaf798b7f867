"""What Google's launcher starts inside the template's image: the launch's parameters follow."""

import os
import sys

from weir.pipelines.runners.dataflow_template import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], image=os.environ["WEIR_IMAGE"]))
