"""What a block stores: whole at every moment, little at each, and read back bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.blocks import Block, bytes_of, copied
from weir.dpcore.arrays import arrays_of, sliding
from weir.dpcore.errors import CodecError
from weir.dpcore.plan import Plan
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators import sliding_history as past
from weir.transforms.operators.noise_source import KeyedNoiseSource
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.runtime.secret import SecretRef

CONFIG = """
name: cells
schema: {{time: t}}
key: {{column: k, {key}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 64 ticks}}
aggregates:
  visits: {{count: events, over: {over}}}
  paid: {{sum: v, clip: [0, 10], over: {over}}}
mechanism: {{continual_sum: {mechanism}}}
blocks: 1
"""
DECLARED, OBSERVED = "declared: [a, b, c]", "observed_keys_are_public: true"
STOP = 300


def plan_of(mechanism: str, over: str, key: str = DECLARED) -> Plan:
    return Plan.from_yaml(CONFIG.format(mechanism=mechanism, over=over, key=key))


def noise_of(plan: Plan, secret: SecretRef) -> KeyedNoiseSource:
    return KeyedNoiseSource(secret, plan.name, plan.digest)


def leaves(plan: Plan) -> list[bytes]:
    """Events of three keys, the third from tick 100 on."""
    rng, found = np.random.default_rng(1), []
    for tick in range(0, STOP, 3):
        rows = np.arange(3 if tick >= 100 else 2)
        values = rng.integers(0, 1 << 20, (len(rows), plan.program.dimension))
        names = (b"a", b"b", b"c")[: len(rows)] if plan.keys.observed else ()
        ones = np.ones(len(rows), dtype=np.int64)
        found.append(partial.encode(PartialLeaf(tick * ones, rows, ones, values, names)))
    return found


def contents(block: Block, first: int) -> Any:
    """What stands in the cells."""
    keys, state, sent = Block(block.plan, block.noise, block.cells, forgets=True).read(first)
    return keys, [(array.shape, array.tobytes()) for array in arrays_of(state or ())], sent


def batches(seed: int) -> list[tuple[int, int]]:
    """Ticks, sometimes many at once."""
    rng, cuts = np.random.default_rng(seed), [0]
    while cuts[-1] < STOP:
        many = rng.random() < 0.05
        cuts.append(min(STOP, cuts[-1] + (int(rng.integers(20, 130)) if many else 1)))
    return list(zip(cuts, cuts[1:], strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("key", [DECLARED, OBSERVED])
@pytest.mark.parametrize(
    "mechanism, over, apart",
    [("blt", "[all, 16]", 1), ("blt", "[40]", 1), ("sliding", "[24]", 1), ("toeplitz", "[40]", 2)]
    + [("window_tree", "[all]", 0), ("blt", "[15]", 0), ("blt", "[all, 70, 20]", 1)]
    + [("kary_window, noise: k_norm", "[24, 70]", 1)],
)
def test_what_is_read_back_is_what_was_stored_after_every_batch(
    mechanism: str, over: str, apart: int, key: str, seed: int, secret: SecretRef
) -> None:
    plan = plan_of(mechanism, over, key)
    assert len(past.apart(plan.program.init(1))) == apart
    noise = noise_of(plan, secret)
    at_hand, forgets = Block(plan, noise), Block(plan, noise, forgets=True)
    held, expected = leaves(plan), Block(plan, noise)
    whole = [s for s in expected.advance(held, 0, STOP)]
    deepest = max((array.shape[-1] for array in arrays_of(plan.program.init(1))), default=0)
    for low, high in batches(seed):
        found = [list(one.advance(held, low, high)) for one in (at_hand, forgets)]
        held = [item for item in found[0] if isinstance(item, bytes)]
        assert bytes_of(at_hand.cells) == bytes_of(forgets.cells)
        if high % 7 == 0:
            content = at_hand.state.content
            arrays = [(array.shape, array.tobytes()) for array in arrays_of(content.state or ())]
            assert contents(forgets, high) == (content.keys, arrays, content.sent)
        slots = [past.Entry.decode(x, bytes.fromhex(plan.layout)) for x in entries(forgets)]
        assert sum(entry.slots[0].shape[-1] for entry in slots) <= 3 * max(deepest, past.TURN)
    assert contents(forgets, STOP) == contents(expected, STOP)
    assert len(whole) > 1


def entries(block: Block) -> list[bytes]:
    return [data for bag in block.cells.past for data in bag.read()]


def test_slots_of_the_past_are_appended_and_never_written_again(secret: SecretRef) -> None:
    plan = plan_of("blt", "[all, 200]")
    block = Block(plan, noise_of(plan, secret))
    list(block.advance([], 0, 1))
    before = {data for data in entries(block)}
    for tick in range(1, 150):
        list(block.advance([], tick, tick + 1))
        now = entries(block)
        (fresh,) = set(now) - before
        assert before < set(now) and len(fresh) < 72 + 200 + 8 * 3 * 2
        before = set(now)
    (machine,) = bytes_of(block.cells)["machine"]
    assert len(machine) < 1000 < sum(map(len, now))


@pytest.mark.parametrize("what", ["gone", "order", "names", "other try"])
def test_a_past_that_is_not_the_machines_own_is_refused(what: str, secret: SecretRef) -> None:
    plan = plan_of("blt", "[all, 40]", OBSERVED)
    noise = noise_of(plan, secret)
    block, other = Block(plan, noise), Block(plan, noise)
    early = leaves(plan)
    list(block.advance(early[:2], 0, 4))
    list(other.advance(early[:1], 0, 4))
    for one in (block, other):
        list(one.advance([], 4, 5))
        assert contents(one, 5)
    cells = copied(block.cells)
    bag: Any = cells.past[0]
    assert len(bag.values) == 2 and not list(cells.past[1].read())
    if what == "gone":
        bag.values.pop(0)
    elif what == "names":
        cells.names.write(past.pack(b"W", [], bytes.fromhex(plan.layout)))
    elif what == "other try":
        bag.values[0] = entries(other)[0]
    else:
        bag.values.reverse()  # a bag keeps no order: nothing is wrong with that
        assert contents(Block(plan, noise, cells), 5) == contents(block, 5)
        return
    with pytest.raises(CodecError, match="not those that"):
        Block(plan, noise, cells).read(5)


def test_a_state_that_did_not_move_on_is_stored_whole() -> None:
    rng = np.random.default_rng(0)
    before = [rng.integers(0, 9, (2, 1, 20))]
    moved = np.concatenate([before[0][..., 3:], rng.integers(0, 9, (2, 1, 3))], axis=-1)
    born = np.concatenate([moved, np.zeros((1, 1, 20), dtype=np.int64)])
    for after, slots in ((moved, 3), (born, 3), (moved + 1, 20), (born + (born == 0), 20)):
        entry = past.Entry.of(before, [after], 7, 5, 8)
        assert entry.slots[0].shape[-1] == slots and (entry.link == 7) == (slots == 3)
    zero = [np.zeros((1, 1, 20))]
    assert past.Entry.of(zero, [-zero[0]], 7, 5, 8).link == past.NONE  # -0.0 is another number


def test_every_state_says_which_of_its_arrays_slide() -> None:
    for mechanism, over in (("blt", "[all, 30]"), ("sliding", "[30]"), ("toeplitz", "[30]")):
        state = plan_of(mechanism, over).program.init(2)
        named = [
            a.shape for a, slides in zip(arrays_of(state), sliding(state), strict=True) if slides
        ]
        assert named and all(len(shape) == 3 for shape in named)


def test_a_shelf_without_room_keeps_nothing_more() -> None:
    shelf: StateCache[str] = StateCache(room=100)
    shelf.put(0, b"a", "first", 60)
    shelf.put(1, b"a", "second", 60)
    assert shelf.get(0, b"a") == "first" and shelf.get(1, b"a") is None
    shelf.put(0, b"b", "third", 30)
    shelf.put(1, b"b", "fourth", 70)
    assert shelf.get(0, b"b") == "third" and shelf.get(1, b"b") == "fourth"
    shelf.put(0, b"c", "too long", 31)
    assert shelf.get(0, b"c") is None and len(shelf) == 1
