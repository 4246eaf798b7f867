"""Loops in C for what numpy needs many passes for, each with a path in numpy of the same bits.

``kernels`` is the compiled module (its functions are listed in ``module.c``), or None where no
compiler was at hand when Weir was installed, or other sources were; ``weir doctor`` tells. Nothing
but speed may hang on it: workers of one job may differ in it, and a retry may move between them. So
a kernel uses what IEEE 754 and integer arithmetic fix, one rounding an operation, nothing of the
platform's ``libm`` but square roots, and is compiled without contraction to fused operations; tests
hold it to the bits of the path next to it.

A kernel comes in only where it halves the time of something that a user waits for. It takes
contiguous buffers, keeps nothing, and releases the lock of the interpreter.

``ciphers`` is the same module where the processor has instructions for AES, else None: kernels that
encrypt use nothing else, so that no time they take follows a key. Without it a library encrypts.
"""

from __future__ import annotations

from types import ModuleType

VERSION = 2562990403
"""Checksum of the sources: a module that was built from others is not used. Its test tells it."""


def _found() -> ModuleType | None:
    try:
        import weir.dpcore.native._kernels as found

        return found if found.version() == VERSION else None
    except (ImportError, AttributeError):
        return None


kernels = _found()

ciphers = kernels if kernels is not None and kernels.aes() else None

__all__ = ["VERSION", "ciphers", "kernels"]
