"""What is drawn in the tests of this folder is the same in every run."""

from tests.fixed_secrets import same_secrets

__all__ = ["same_secrets"]
