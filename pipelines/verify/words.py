"""What ``weir verify`` says, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from weir.dpcore.words import plural
from weir.pipelines.verify.folder import FaultKind, Verification
from weir.pipelines.verify.rederive import Rederived
from weir.transforms.sinks import receipts


def lines(result: Verification, rederived: Rederived | None) -> Iterator[str]:
    """Lines for people; faults are left to the caller.

    Args:
      rederived: None: nothing was computed again.
    """
    if result.of is not None:
        promise, software = result.facts["guarantee"], result.facts["software"]
        yield f"{result.folder}: {result.release}, {plural(result.files, 'file')} in " + (
            "a complete folder." if result.of == receipts.FOLDER else "a folder that grows."
        )
        yield (
            f"Stated: epsilon {promise.get('epsilon')}, delta {promise.get('delta')}, plan "
            f"{str(result.facts['plan'].get('digest'))[:12]}, Weir {software.get('weir')}."
        )
        ledger = result.facts["ledger"]
        yield (
            "No ledger counted this run."
            if not isinstance(ledger, dict)
            else f"Ledger: entry {ledger.get('entry')}."
        )
    yield from _signature(result)
    if result.of is not None and not any(
        fault.kind in range(FaultKind.OTHER_PLAN, FaultKind.ROWS_DIFFER) for fault in result.faults
    ):
        yield "Files and plan are those of the receipt."
    if rederived is not None:
        yield from _rederived(rederived)
    yield from result.notes


def _signature(result: Verification) -> Iterator[str]:
    if result.of is None:
        return
    if result.signed_by is None:
        yield (
            "Not signed: this shows damage, but anybody could have written the receipt."
            if result.facts["public_key"] is None
            else "Not all receipts are signed with one key."
        )
    elif result.checked:
        if not any(fault.kind < FaultKind.OTHER_PLAN for fault in result.faults):
            yield f"Signed with the key that you gave: {result.signed_by}."
    else:
        yield (
            f"Signed with {result.signed_by}. Give --public-key to check that this is the key of "
            "whom you trust."
        )


def _rederived(again: Rederived) -> Iterator[str]:
    what = "all rows" if again.cells is None else plural(len(again.cells), "sampled key and tick")
    if again.cells is not None and len(again.cells) != 1:
        what = f"{len(again.cells):,} sampled pairs of key and tick"
    yield f"Computed again: {again.rows:,} rows ({what}) in {again.seconds:.1f} s."
    if not again.differences.count:
        yield "Each is the same to the last bit."
    for row in again.differences.first:
        named = ", ".join(f"{name} {value}" for name, value in row.items() if name != "how")
        yield f"  {row['how']}: {named}"


__all__ = ["lines"]
