"""Partitioned folders, ``region=EU/day=2025-01-01/part-0.parquet``: which columns the names of
folders hold, and which files a predicate on them leaves out.

What a folder is named is what each of its records has in that column. A file is left out where its
folders alone decide that no record in it satisfies the predicate: none of them would count.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.columns.predicate import Predicate
from weir.transforms.columns.predicate_compiler import Compiler
from weir.transforms.decode.canonical import assemble
from weir.transforms.decode.schema import EventSchema
from weir.transforms.formats.stored import File

NONE = "__HIVE_DEFAULT_PARTITION__"
"""Name of the folder of records that have no value there."""

Partition = Mapping[str, str | None]
"""Column -> text, or None where it is missing, in order of the folders."""


def is_partitioned(root: str) -> bool:
    """Whether a folder of a disk holds no file that would be read, and folders COLUMN=VALUE."""
    with os.scandir(root) as entries:
        shown = [item for item in entries if item.name[:1] not in (".", "_") or "=" in item.name]
    return bool(shown) and all(item.is_dir() and "=" in item.name for item in shown)


def partition_of(path: str, root: str, field: str) -> Partition:
    """The columns in the names of folders between the root of a dataset and a file.

    Raises:
      ConfigError: a folder is not named COLUMN=VALUE, or two name the same column.
    """
    folders = path.removeprefix(root).strip("/").split("/")[:-1]
    result: dict[str, str | None] = {}
    for folder in folders:
        name, equals, value = folder.partition("=")
        column = unquote(name)
        if not equals or not column or column in result:
            raise ConfigError(
                field,
                path,
                f"lies in the folder {folder}, which does not name a column of its own and a value "
                "(region=EU). Name the dataset whose folders do, or write a glob in place of "
                "dataset.",
            )
        result[column] = None if value == NONE else unquote(value)
    return result


def refuse_uneven(matched: tuple[File, ...], root: str, field: str) -> None:
    """Refuses a dataset whose files do not all lie in folders of the same columns.

    Raises:
      ConfigError: names the first file that differs.
    """
    first: tuple[str, ...] | None = None
    for file in matched:
        names = tuple(partition_of(file.path, root, field))
        if not names:
            raise ConfigError(
                field,
                file.path,
                "lies in no folder that is named COLUMN=VALUE, so it is no part of a dataset with "
                "partitioning: hive. Write a folder or a glob in place of dataset.",
            )
        if first is None:
            first = names
        if names != first:
            raise ConfigError(
                field,
                file.path,
                f"lies in folders of {', '.join(names)}, and other files in folders of "
                f"{', '.join(first)}. Name a dataset whose files all lie in folders of the same "
                "columns.",
            )


def in_partition(schema: EventSchema, partition: Partition) -> EventSchema:
    """The roles of the columns of a file: those that its folders name are not read from it."""
    used = {name: text for name, text in partition.items() if name in schema.needed}
    return replace(schema, partition=used) if used else schema


def may_hold(where: str, schema: EventSchema, partition: Partition) -> bool:
    """Whether a record of a partition may satisfy a predicate: False only where its folders alone
    decide that none does.

    Args:
      where: the predicate. schema: says how its columns are read.
    """
    kinds = Predicate.parse(where).kinds
    own = {name: kind for name, kind in kinds.items() if name in partition}
    if not own:
        return True
    alone = EventSchema(columns=own, partition={name: partition[name] for name in own})
    row = assemble({}, np.zeros(1, dtype=np.int64), alone, "").events
    assert row is not None
    compiler = Compiler(where)
    return _may_be(compiler, compiler.tree, row, set(own), True)


def _may_be(
    compiler: Compiler, node: ast.AST, row: pa.RecordBatch, known: set[str], wanted: bool
) -> bool:
    """Whether a condition may be ``wanted``, whatever the columns hold that are not known."""
    if isinstance(node, ast.BoolOp):
        parts = (_may_be(compiler, part, row, known, wanted) for part in node.values)
        # All parts of an `and` have to be true, and one of them false to make it false.
        return all(parts) if isinstance(node.op, ast.And) is wanted else any(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _may_be(compiler, node.operand, row, known, not wanted)
    compiler.kinds = {}
    evaluate = compiler.condition(node)
    if not set(compiler.kinds) <= known:
        return True
    return bool(evaluate(row)[0].as_py()) is wanted
