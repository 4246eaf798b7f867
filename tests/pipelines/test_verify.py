"""Receipts of folders of releases: each fault has its code, and rows are those of the events."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tests.pipelines.conftest import SMALL, Weir
from tests.transforms.releases import batch
from weir.dpcore.errors import ConfigError
from weir.pipelines.verify import rederive as rederive_module
from weir.pipelines.verify.folder import FaultKind, check_folder, gaps
from weir.transforms.runtime import signing
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks import place, receipts
from weir.transforms.sinks.receipts import Damaged, parse
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.writer import FolderWriter

SEED, OTHER, SECRET = "11" * 32, "22" * 32, "ab" * 32
PUBLIC = "d04ab232742bb4ab3a1368bd4615e4e6d0224ab71a016baf8520a332c9778737"
"""Of the key SEED, by RFC 8032."""
FILES = [place.file_name(first, first + 7, "parquet") for first in (0, 8, 16)]


def write_secret(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def write_events(path: Path, changed: bool = False) -> None:
    rows = [
        f"2024-01-01T{hour:02d}:30:00Z,{i}-{hour},{('north', 'south')[i % 2]},{i + hour}.5"
        for hour in range(24)
        for i in range(4)
    ]
    if changed:
        rows[9 * 4] = rows[9 * 4].replace(",9.5", ",49.5")
    path.write_text("\n".join(["at,id,store,amount", *rows]) + "\n")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config, its events and the releases of a run, signed."""
    from click.testing import CliRunner

    from weir.pipelines.cli.main import main

    top = tmp_path_factory.mktemp("verify")
    write_secret(top / "secret.key", SECRET)
    write_secret(top / "signing.key", SEED)
    write_events(top / "events.csv")
    sink = "sink: {parquet: out/, every: 8, signing_key: {file: signing.key}}\n"
    text = SMALL.replace("sink: {parquet: out/}\n", f"{sink}secret: {{file: secret.key}}\n")
    (top / "shop.yaml").write_text(text)
    result = CliRunner().invoke(main, ["run", str(top / "shop.yaml")])
    assert result.exit_code == 0, result.output
    return top


@pytest.fixture
def top(whole: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def changed_byte(out: Path) -> None:
    content = bytearray((out / FILES[1]).read_bytes())
    content[len(content) // 2] ^= 1
    (out / FILES[1]).write_bytes(bytes(content))


def edited(out: Path, edit: Callable[[dict[str, object]], object]) -> None:
    stored = json.loads((out / "_receipt.json").read_bytes())
    edit(stored)
    (out / "_receipt.json").write_bytes(receipts.canonical(stored) + b"\n")


def other_plan(out: Path) -> None:
    plan = json.loads((out / "_plan.json").read_text())
    (out / "_plan.json").write_text(json.dumps(plan | {"digest": "0" * 64}))


def cut(out: Path) -> None:
    content = (out / "_receipt.json").read_bytes()
    (out / "_receipt.json").write_bytes(content[: len(content) // 2])


def resigned(out: Path) -> None:
    (out.parent / "other.key").write_text(OTHER)
    names = list(place.release_files(str(out)))
    signer = signing.Signer(SecretRef(file=str(out.parent / "other.key")))
    receipts.write_folder(str(out), names, signer)


def unsigned(out: Path) -> None:
    receipts.write_folder(str(out), list(place.release_files(str(out))), None)


FAULTS = {
    "changed byte": (changed_byte, 16, f"{FILES[1]} was changed since its receipt"),
    "missing file": (lambda out: (out / FILES[2]).unlink(), 17, f"{FILES[2]} is missing"),
    "extra file": (
        lambda out: shutil.copy(out / FILES[0], out / place.file_name(24, 31, "parquet")),
        18,
        "is in no receipt",
    ),
    "other plan": (other_plan, 15, "_plan.json is of plan 000000000000, and the receipt"),
    "space in the plan": (
        lambda out: (out / "_plan.json").write_bytes((out / "_plan.json").read_bytes() + b" "),
        16,
        "_plan.json was changed",
    ),
    "no plan": (lambda out: (out / "_plan.json").unlink(), 17, "_plan.json is missing"),
    "no mark of the end": (lambda out: (out / "_COMPLETE").unlink(), 17, "_COMPLETE is missing"),
    "other key": (resigned, 13, "was signed with another key: a09aa5f47a6759802ff955f8dc2d2a14"),
    "unsigned": (unsigned, 12, "is not signed: anybody could have written it"),
    "cut receipt": (cut, 11, "is not whole JSON"),
    "spelling": (
        lambda out: (out / "_receipt.json").write_text(
            json.dumps(json.loads((out / "_receipt.json").read_text()))
        ),
        11,
        "is not in the canonical spelling",
    ),
    "no receipt": (lambda out: (out / "_receipt.json").unlink(), 10, "was removed, or an earlier"),
    "edited guarantee": (
        lambda out: edited(out, lambda it: it["receipt"]["guarantee"].update(epsilon=0.1)),
        14,
        "was changed after it was signed",
    ),
    "newer format": (
        lambda out: edited(out, lambda it: it["receipt"].update(weir_receipt=2)),
        11,
        "has format 2, and this version of Weir reads 1",
    ),
    "one file's receipt as the folder's": (
        lambda out: edited(out, lambda it: it["receipt"].update(of="file")),
        11,
        "was put in the place of another one",
    ),
}


def test_a_folder_as_it_was_left_is_verified_without_a_secret(weir: Weir, whole: Path) -> None:
    for key in (PUBLIC, PUBLIC.upper()):
        result = weir("verify", whole / "out", "--public-key", key)
        assert result.exit_code == 0 and not result.stderr
        assert f"Signed with the key that you gave: {PUBLIC}." in result.stdout
        assert "out: shop, 3 files in a complete folder." in result.stdout
        assert "Stated: epsilon 1.0, delta 1e-06" in result.stdout
    unchecked = weir("verify", whole / "out")
    assert unchecked.exit_code == 0 and "Give --public-key to check" in unchecked.stdout
    facts = json.loads(weir("verify", whole / "out", "--json").stdout)
    assert facts["faults"] == [] and facts["signed_by"] == PUBLIC and not facts["key_checked"]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_code_and_a_sentence(weir: Weir, top: Path, fault: str) -> None:
    spoil, code, sentence = FAULTS[fault]
    spoil(top / "out")  # type: ignore[no-untyped-call]
    result = weir("verify", top / "out", "--public-key", PUBLIC)
    assert result.exit_code == code, result.output
    assert f"weir: fault {code}: " in result.stderr and sentence in result.stderr
    assert "Files and plan are those" not in result.stdout or code < 15


def test_several_faults_are_all_said_and_the_least_code_is_given(weir: Weir, top: Path) -> None:
    changed_byte(top / "out")
    (top / "out" / FILES[2]).unlink()
    (top / "out" / "notes.txt").write_text("x")
    (top / "out" / "report.html").write_text("x")
    result = weir("verify", top / "out", "--public-key", PUBLIC, "--json")
    facts = json.loads(result.stdout)
    assert result.exit_code == 16 and [item["code"] for item in facts["faults"]] == [16, 17, 18]
    assert "report.html" in facts["notes"][0]


def test_every_cut_and_every_flipped_bit_of_a_receipt_is_seen(whole: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(whole / "out", tmp_path / "out"))
    content = (out / "_receipt.json").read_bytes()
    for size in range(len(content)):
        with pytest.raises(Damaged):
            parse(content[:size])
    begin = content.rfind(b":") + 2  # of the signature, in hexadecimal
    letter = next(at for at in range(begin, len(content)) if content[at] in b"abcdef")
    flips = [(at, 1 << at % 7) for at in range(0, len(content), 31)]
    for at, bit in [*flips, (letter, 0x20)]:
        damaged = bytearray(content)
        damaged[at] ^= bit
        (out / "_receipt.json").write_bytes(bytes(damaged))
        assert check_folder(str(out), PUBLIC).exit_code in (11, 13, 14), at


def test_without_a_key_receipts_are_unsigned_and_verify_says_so(weir: Weir, top: Path) -> None:
    run = weir("run", top / "shop.yaml", "--set", "sink={parquet: plain/}")
    assert run.exit_code == 0
    result = weir("verify", top / "plain")
    assert result.exit_code == 0 and "Not signed: this shows damage, but anybody" in result.stdout
    assert weir("verify", top / "plain", "--public-key", PUBLIC).exit_code == 12


def test_the_same_run_gives_the_same_receipt(weir: Weir, top: Path) -> None:
    before = (top / "out" / "_receipt.json").read_bytes()
    shutil.rmtree(top / "out")
    assert weir("run", top / "shop.yaml").exit_code == 0
    assert (top / "out" / "_receipt.json").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("place_of_kill", ["write_folder", "finish"])
def test_a_kill_while_publishing_leaves_a_folder_that_goes_on(
    weir: Weir, top: Path, monkeypatch: pytest.MonkeyPatch, place_of_kill: str
) -> None:
    before = (top / "out" / "_receipt.json").read_bytes()
    shutil.rmtree(top / "out")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(receipts if place_of_kill == "write_folder" else place, place_of_kill, killed)
        weir("run", top / "shop.yaml")
    assert not (top / "out" / "_COMPLETE").exists()
    assert weir("verify", top / "out").exit_code == (10 if place_of_kill == "write_folder" else 17)
    assert weir("run", top / "shop.yaml").exit_code == 0
    assert (top / "out" / "_receipt.json").read_bytes() == before


class Stream:
    """A folder that grows, as the workers of a stream write it."""

    def __init__(self, top: Path) -> None:
        self.out = top / "grows"
        self.out.mkdir()
        for name in ("_plan.json", "_marks.json"):
            shutil.copy(top / "out" / name, self.out / name)
        signer = signing.Signer(SecretRef(file=str(top / "signing.key")))
        self.writer = FolderWriter(str(self.out), "csv", signer=signer)

    def write(self, tick: int) -> None:
        self.writer.write(tick, tick, sorted_table([batch(tick, 1, [b"north"])]))

    def codes(self) -> list[int]:
        return [int(fault.kind) for fault in check_folder(str(self.out), PUBLIC).faults]


def test_a_growing_folder_has_a_receipt_for_each_file(top: Path) -> None:
    stream = Stream(top)
    for tick in range(3):
        stream.write(tick)
    assert stream.codes() == []
    result = check_folder(str(stream.out), PUBLIC)
    assert result.of == "file" and result.files == 3 and "The stream goes on" in result.notes[0]
    (stream.out / place.file_name(1, 1, "csv")).write_text("release\n")
    assert stream.codes() == [16]
    (stream.out / place.file_name(1, 1, "csv")).unlink()
    assert stream.codes() == [17]
    (stream.out / "_receipts" / f"{place.file_name(1, 1, 'csv')}.json").unlink()
    assert stream.codes() == [17], "a gap is seen without any receipt of it"


def test_a_kill_between_a_file_and_its_receipt_is_made_good_by_the_resumed_job(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(top)
    stream.write(0)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(receipts, "write_file", killed)
        with pytest.raises(KeyboardInterrupt):
            stream.write(1)
    (fault,) = check_folder(str(stream.out), PUBLIC).faults
    assert fault.kind == 18 and "resuming it writes the receipt" in fault.sentence
    stream.write(1)
    assert stream.codes() == []


def test_receipts_of_other_plans_secrets_and_files_do_not_pass(top: Path) -> None:
    stream = Stream(top)
    for tick in range(2):
        stream.write(tick)
    inside = stream.out / "_receipts"
    first, second = sorted(inside.iterdir())
    before = second.read_bytes()
    second.write_bytes(first.read_bytes())
    assert stream.codes() == [11, 18][:1], "the receipt of another file"
    second.write_bytes(before)
    marks = (stream.out / "_marks.json").read_text()
    (stream.out / "_marks.json").write_text('{"0": "00"}')
    assert stream.codes() == [16]
    (stream.out / "_marks.json").write_text(json.dumps(json.loads(marks) | {"9": "00"}))
    assert stream.codes() == [], "a later secret is a rotation"
    plan = json.loads((stream.out / "_plan.json").read_text())
    (stream.out / "_plan.json").write_text(json.dumps(plan | {"ledger": {"entry": "later"}}))
    assert stream.codes() == [], "a resumed job notes its entry again"
    (stream.out / "_plan.json").write_text(json.dumps(plan | {"noun": "other"}))
    assert stream.codes() == [16]


def test_a_receipt_that_says_nothing_of_a_plan_beside_a_broken_one_is_a_fault(top: Path) -> None:
    out = top / "out"
    stored = json.loads((out / "_receipt.json").read_bytes())
    stored["receipt"]["plan"] = {}
    (out / "_receipt.json").write_bytes(receipts.canonical(stored) + b"\n")
    (out / place.PLAN_FILE).write_text("{}")
    assert FaultKind.CHANGED in {fault.kind for fault in check_folder(str(out), None).faults}


def test_what_was_changed_while_a_stream_ran_stays_visible_at_its_end(top: Path) -> None:
    stream = Stream(top)
    for tick in range(2):
        stream.write(tick)
    changed = stream.out / place.file_name(1, 1, "csv")
    changed.write_text("release\n")
    names = list(place.release_files(str(stream.out)))
    receipts.write_folder(str(stream.out), names, stream.writer.signer)
    place.finish(str(stream.out))
    assert not (stream.out / "_receipts").exists()
    assert stream.codes() == [16]


def test_gaps_are_looked_for_part_by_part() -> None:
    parts = ((0, 0), (4, 0), (0, 1))
    names = [place.file_name(a, a + 1, "csv", place.Part(part, 2)) for a, part in parts]
    assert list(gaps(names)) == [(2, 3)]


def test_a_key_is_made_once_for_its_owner_and_others_read_its_public_half(
    weir: Weir, tmp_path: Path
) -> None:
    file = tmp_path / "signing.key"
    shown = weir("keygen", file)
    assert shown.exit_code == 0 and file.stat().st_mode & 0o777 == 0o600
    public = signing.read_public(f"{file}.pub")
    pem = load_pem_public_key((tmp_path / "signing.key.pub").read_bytes())
    assert pem.public_bytes_raw().hex() == public and public in shown.stdout  # type: ignore[union-attr]
    assert signing.Signer(SecretRef(file=str(file))).public() == public
    assert file.read_text().strip() not in shown.output
    before = file.read_bytes()
    again = weir("keygen", file)
    assert again.exit_code == 2 and "no key is replaced" in again.stderr
    assert file.read_bytes() == before
    with pytest.raises(ConfigError, match="--public-key"):
        signing.read_public(str(file))


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ("{parquet: new/, signing_key: {file: secret.key}}", "is the secret of the noise"),
        ("{parquet: new/, signing_key: {file: lost.key}}", "cannot be read: No such file"),
        ("{parquet: new/, signing_key: {file: events.csv}}", "make one with weir keygen"),
        (f"{{parquet: new/, signing_key: {{file: {SECRET}}}}}", "looks like the secret itself"),
        (
            "{stdout: true, signing_key: {file: signing.key}}",
            "is for parquet and csv and ndjson only",
        ),
        ("{parquet: new/, signing_key: {}}", "must hold exactly one of file, env, gcp"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_before_any_data_are_read(
    weir: Weir, top: Path, sink: str, words: str
) -> None:
    result = weir("run", top / "shop.yaml", "--set", f"sink={sink}")
    said = " ".join(result.stderr.split())
    assert result.exit_code == 2 and "sink.signing_key" in said and words in said
    assert SECRET not in said and not (top / "new").exists()


def test_places_without_receipts_are_named(weir: Weir, tmp_path: Path) -> None:
    result = weir("verify", tmp_path)
    assert result.exit_code == 2
    assert "topics, tables and the screen have no receipts" in result.stderr


HOW = {
    "config": ("--config", "shop.yaml"),
    "plan alone": ("--secret-file", "secret.key", "--source", "events.csv"),
    "sample": ("--config", "shop.yaml", "--sample", "7"),
}


@pytest.mark.parametrize("how", HOW)
def test_rows_computed_again_are_the_same(weir: Weir, whole: Path, how: str) -> None:
    words = [str(whole / word) if (whole / word).exists() else word for word in HOW[how]]
    result = weir("verify", whole / "out", *words)
    assert result.exit_code == 0, result.output
    rows = "96 rows (all rows)" if how != "sample" else "sampled pair"
    assert rows in result.stdout and "Each is the same to the last bit." in result.stdout


@pytest.mark.parametrize("kind", ["pubsub", "kafka"])
def test_the_folder_of_a_stream_is_verified_by_the_events_that_were_sent(
    weir: Weir, top: Path, kind: str
) -> None:
    """The source of the config cannot be read again: a file is given in its place."""
    text = (top / "shop.yaml").read_text()
    source = {
        "pubsub": "{pubsub: {subscription: projects/cd-shop/subscriptions/all, payload: ndjson}}",
        "kafka": "{kafka: {brokers: nowhere:9092, topic: b, payload: ndjson, start: earliest}}",
    }[kind]
    live = re.sub(r"source: \{.*\}", f"source: {source}", text)
    assert live != text
    (top / "stream.yaml").write_text(live)
    words = ("verify", top / "out", "--config", top / "stream.yaml")
    result = weir(*words)
    assert result.exit_code == 2 and f"source.{kind} cannot be read again" in result.stderr
    result = weir(*words, "--source", top / "events.csv")
    assert result.exit_code == 0, result.output
    assert "Each is the same to the last bit." in result.stdout
    write_events(top / "events.csv", changed=True)
    assert weir(*words, "--source", top / "events.csv").exit_code == 19


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("layout", ["flat", "packed"])
def test_which_rows_differ_is_said_and_no_value(
    weir: Weir, top: Path, form: str, layout: str
) -> None:
    sink = f"sink={{{form}: other/, every: 8, layout: {layout}}}"
    assert weir("run", top / "shop.yaml", "--set", sink).exit_code == 0
    write_events(top / "changed.csv", changed=True)
    words = ("--config", top / "shop.yaml", "--source", top / "changed.csv")
    result = weir("verify", top / "other", *words)
    assert result.exit_code == 19, result.output
    differ = result.stdout.count("  differs: key north, tick ")
    # The tick that changed, and all later ones: the noise of other data is other noise.
    assert differ == 20 and "differs: key south" not in result.stdout
    assert "tick 9, name paid" in result.stdout and "tick 8, " not in result.stdout
    facts = json.loads(weir("verify", top / "other", *words, "--json").stdout)
    assert facts["rederived"]["differ"] == 2 * 15
    assert all(
        set(row) <= {"key", "tick", "name", "over", "index", "how"}
        for row in facts["rederived"]["first"]
    )


def test_no_value_that_was_computed_again_is_shown(
    weir: Weir, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    compare = rederive_module.compare_rows

    def watched(theirs: object, mine: object) -> object:
        seen.extend([*theirs["value"].to_pylist(), *mine["value"].to_pylist()])  # type: ignore[index]
        return compare(theirs, mine)

    monkeypatch.setattr(rederive_module, "compare_rows", watched)
    write_events(top / "events.csv", changed=True)
    words = ("verify", top / "out", "--config", top / "shop.yaml")
    said = weir(*words).output + weir(*words, "--json").output
    assert len(seen) > 50 and not [value for value in seen if repr(value) in said]


def test_a_forged_row_is_named(weir: Weir, top: Path) -> None:
    path = top / "out" / FILES[1]
    table = pq.read_table(path)
    values = table["value"].to_pylist()
    values[3] += 1.0
    forged = table.set_column(table.schema.names.index("value"), "value", [values])
    pq.write_table(forged.slice(0, 30), path)
    result = weir("verify", top / "out", "--config", top / "shop.yaml", "--json")
    facts = json.loads(result.stdout)
    assert result.exit_code == 16 and [item["code"] for item in facts["faults"]] == [16, 19]
    assert facts["rederived"]["differ"] == 3
    assert [row["how"] for row in facts["rederived"]["first"]] == [
        "differs", "not in the folder", "not in the folder",
    ]  # fmt: skip
    assert "key" not in facts["rederived"]["first"][1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--secret-file", "signing.key", "--source", "events.csv"), "is not the secret that the"),
        (("--secret-file", "secret.key"), "a plan does not say where events are"),
        (("--source", "events.csv"), "give --secret-file or --config too"),
        (("--secret-file", "secret.key", "--source", "notes.xyz"), "is no file of events"),
        (("--config", "shop.yaml", "--set", "privacy.epsilon=2"), "is of another plan than"),
    ],
)
def test_what_cannot_be_computed_again_is_refused(
    weir: Weir, whole: Path, words: tuple[str, ...], said: str
) -> None:
    words = tuple(str(whole / word) if (whole / word).exists() else word for word in words)
    result = weir("verify", whole / "out", *words)
    assert result.exit_code == 2 and said in " ".join(result.stderr.split()), result.output


def test_a_folder_that_was_drained_inside_a_range_is_computed_again(weir: Weir, top: Path) -> None:
    """Files of a stream that ended early: fewer ticks than the clock, the last file shorter."""
    out = top / "out"
    table = pq.read_table(out / FILES[2])
    (out / FILES[2]).unlink()
    shorter = table.filter(pc.less_equal(table["tick"], 18))
    pq.write_table(shorter, out / place.file_name(16, 18, "parquet"))
    result = weir("verify", out, "--config", top / "shop.yaml", "--json")
    facts = json.loads(result.stdout)["rederived"]
    assert facts["differ"] == 0 and facts["rows"] == 19 * 4


def test_an_audit_passes_over_what_a_receipt_says_of_releases_alone(whole: Path) -> None:
    """Digests of releases differ where their noise does; all else of a receipt must not."""
    from weir.pipelines.audit.trial import _receipt_facts

    content = (whole / "out" / "_receipt.json").read_bytes()
    facts = _receipt_facts(content)
    assert {facts["files"][name] for name in FILES} == {None}
    assert all(facts["files"][name] for name in ("_plan.json", "_marks.json", "_COMPLETE"))
    assert {**facts, "files": None} == {**parse(content).body, "files": None}
