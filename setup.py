"""Names the packages of the wheel and of what Beam's ``--setup_file`` ships to workers.

All other metadata is in pyproject.toml. The kernels are optional: without a compiler Weir installs
all the same, and does everything with numpy (dpcore/native says how the two agree).
"""

import sys
import zlib
from pathlib import Path

from setuptools import Extension, find_packages, setup

if not Path("weir/dpcore/__init__.py").exists():
    sys.exit(
        "weir/dpcore must be a link to the folder dpcore, and is not: this copy has lost its "
        "symbolic links. Use `git clone` with core.symlinks on, or a source distribution."
    )

NATIVE = Path("dpcore/native")
SOURCES = sorted([*NATIVE.glob("*.c"), *NATIVE.glob("*.h")])
VERSION = zlib.crc32(b"".join(path.read_bytes() for path in SOURCES))

setup(
    packages=find_packages(include=["weir", "weir.*"]),
    ext_modules=[
        Extension(
            "weir.dpcore.native._kernels",
            sources=[path.as_posix() for path in SOURCES if path.suffix == ".c"],
            depends=[path.as_posix() for path in SOURCES if path.suffix == ".h"],
            # One build for every Python; and no operation may be fused or reordered.
            define_macros=[("Py_LIMITED_API", "0x030B0000"), ("WEIR_VERSION", f"{VERSION}U")],
            py_limited_api=True,
            extra_compile_args=[
                "-O3",
                "-ffp-contract=off",
                "-fno-math-errno",
                "-fno-trapping-math",
            ],
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
