from __future__ import annotations

import base64
import logging
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.transforms.doubles import FakeConfig, FakePlan, FakeSchema
from weir.dpcore.errors import ConfigError
from weir.transforms.beam.private_releases import PrivateReleases
from weir.transforms.beam.runner_quirks import has_own_workers
from weir.transforms.operators.noise_source import KeyedNoiseSource
from weir.transforms.runtime.secret import SecretRef, mounted_path

SECRET = bytes(range(100, 132))


@pytest.mark.parametrize(
    "content",
    [
        SECRET,
        SECRET.hex().encode(),
        SECRET.hex().upper().encode() + b"\n",
        base64.b64encode(SECRET),
    ],
)
def test_a_file_in_three_forms(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret.key"
    file.write_bytes(content)
    file.chmod(0o600)
    assert SecretRef(file=str(file)).resolve() == SECRET


def test_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_TEST_SECRET", SECRET.hex())
    assert SecretRef(env="WEIR_TEST_SECRET").resolve() == SECRET
    with pytest.raises(ConfigError, match="not set"):
        SecretRef(env="WEIR_TEST_SECRET_2").resolve()


@pytest.mark.parametrize("content", [b"", b"hunter2-hunter2", b"zz" * 32, b"ab" * 31, b"!" * 44])
def test_anything_else_is_refused_and_never_quoted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret.key"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        SecretRef(file=str(file)).resolve()
    assert not content or content.decode() not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_a_file_that_others_can_read_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "secret.key"
    file.write_bytes(SECRET.hex().encode())
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            SecretRef(file=str(file)).resolve()
    assert caplog.text.count("chmod 600") == 1 and SECRET.hex() not in caplog.text


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_that_others_can_read_is_refused_on_a_cluster(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret.key"
    file.write_bytes(SECRET.hex().encode())
    file.chmod(mode)
    guarded = SecretRef(file=str(file), guarded=True)
    for refuse in (
        guarded.resolve,
        guarded.refuse_readers,
        SecretRef(file=str(file)).refuse_readers,
    ):
        with pytest.raises(ConfigError, match="can be read by others.*chmod 600") as caught:
            refuse()
        assert SECRET.hex() not in str(caught.value)
    file.chmod(0o600)
    assert guarded.resolve() == SECRET and guarded.kind == "file"
    file.unlink()
    guarded.refuse_readers()  # it may be on the workers alone


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags, guarded",
    [
        (["--runner=FlinkRunner", "--environment_type=EXTERNAL", "--environment_config=x:1"], True),
        (["--runner=FlinkRunner"], True),
        (["--runner=FlinkRunner", "--environment_type=LOOPBACK"], False),
        (["--runner=PrismRunner", "--environment_type=LOOPBACK"], False),
        ([], False),
    ],
)
def test_a_pipeline_for_a_cluster_guards_every_secret_of_its_steps(
    flags: list[str], guarded: bool
) -> None:
    plan: Any = replace(FakePlan(), config=FakeConfig(FakeSchema("id")))
    one, two = SecretRef(file="one.key"), SecretRef(file="two.key")
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    events = pipeline | beam.Create([]).with_output_types(pa.RecordBatch)
    assert events | PrivateReleases(plan, one, rotate=[(5, two)])
    found: list[SecretRef] = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node: Any) -> None:
            for value in vars(getattr(node.transform, "fn", None) or object).values():
                if isinstance(value, SecretRef):
                    found.append(value)
                elif isinstance(value, KeyedNoiseSource):
                    found.extend([value.secret, *(ref for _, ref in value.rotate)])

    pipeline.visit(Visitor())
    assert {ref.file for ref in found} == {"one.key", "two.key"}
    assert {ref.guarded for ref in found} == {guarded}


def test_dataflow_is_a_cluster() -> None:
    for name, expected in (("DataflowRunner", True), ("FnApiRunner", False)):
        options = PipelineOptions([f"--runner={name}"])
        assert has_own_workers(SimpleNamespace(options=options)) is expected


@pytest.mark.parametrize("text", [SECRET.hex(), SECRET.hex().upper(), base64.b64encode(b"?" * 32)])
@pytest.mark.parametrize("around", ["{}", "/some/folder/{}", "job/{}", " {}\n"])
def test_a_secret_in_place_of_its_place_is_never_quoted(text: str | bytes, around: str) -> None:
    text = text if isinstance(text, str) else text.decode()
    for place in ("file", "env", "gcp", "kubernetes"):
        with pytest.raises(ConfigError, match="looks like the secret itself") as caught:
            SecretRef(**{place: around.format(text)})
        assert text not in repr(caught.value) and text not in str(caught.value.value)


def test_errors_leave_out_what_is_written_like_a_secret() -> None:
    text = SECRET.hex()
    for value in (text, f"c/{text}", [text], {"file": text}, Path(text)):
        error = ConfigError("secret", value, f"is not mounted at /run/{text}.")
        assert text not in str(error) and text not in str(error.args)


def test_exactly_one_place() -> None:
    for fields in ({}, {"file": "a", "env": "b"}):
        with pytest.raises(ConfigError, match="exactly one"):
            SecretRef(**fields)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match="nowhere.key"):
        SecretRef(file="nowhere.key").resolve()


def test_a_fresh_secret_is_carried_by_reference() -> None:
    ref = SecretRef.fresh()
    value = ref.resolve()
    assert ref.is_fresh and len(value) == 32 and value != SecretRef.fresh().resolve()
    data = pickle.dumps(ref)
    assert value not in data and value.hex().encode() not in data
    assert pickle.loads(data).resolve() == value
    with pytest.raises(ConfigError, match="process"):
        SecretRef(held="another process").resolve()


def test_a_kubernetes_secret_is_a_mounted_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "weir-noise" / "key"
    file.parent.mkdir()
    file.write_text(SECRET.hex())
    file.chmod(0o644)
    monkeypatch.setenv("WEIR_SECRETS", str(tmp_path))
    for name in ("weir-noise/key", "prod/weir-noise/key", str(file)):
        assert SecretRef(kubernetes=name).resolve() == SECRET
    assert "chmod" not in caplog.text
    with pytest.raises(ConfigError, match="not mounted at .*weir-noise/other"):
        SecretRef(kubernetes="weir-noise/other").resolve()
    for name in ("key", "a/../b", "a/b/c/d", ""):
        with pytest.raises(ConfigError, match="namespace/name/key"):
            SecretRef(kubernetes=name).resolve()
    monkeypatch.delenv("WEIR_SECRETS")
    assert str(mounted_path("ns/weir/key")) == "/var/run/secrets/weir/weir/key"


def test_the_secret_itself_is_no_place_and_is_not_quoted() -> None:
    for text in (SECRET.hex(), base64.b64encode(SECRET).decode(), SECRET.hex() + "\n"):
        for field in ("file", "env", "kubernetes"):
            with pytest.raises(ConfigError, match="looks like the secret itself") as caught:
                SecretRef(**{field: text})
            assert text not in str(caught.value) and caught.value.value == "..."
    with pytest.raises(TypeError, match="not bytes") as refused:
        SecretRef(file=SECRET)  # type: ignore[arg-type]
    assert repr(SECRET) not in str(refused.value)


def test_a_path_is_a_place(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    file.write_text(SECRET.hex())
    file.chmod(0o600)
    assert SecretRef(file=file).resolve() == SECRET  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["aB3/" * 10 + "x//=", "aB//" + "c7Qx" * 9 + "//d="])
def test_a_path_made_of_a_secret_is_refused(text: str) -> None:
    shorter = Path("keys") / text
    assert len(text) == 44 and text not in str(shorter)
    with pytest.raises(ConfigError, match="looks like the secret itself") as caught:
        SecretRef(file=shorter)  # type: ignore[arg-type]
    assert text[:3] not in str(caught.value)
