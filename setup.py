"""Names the packages of the wheel and of what Beam's ``--setup_file`` ships to workers.

All other metadata is in pyproject.toml.
"""

from setuptools import find_packages, setup

setup(packages=find_packages(include=["dpcore*", "transforms*", "pipelines*", "weir*"]))
