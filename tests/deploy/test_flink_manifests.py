"""The manifests for Flink on Kubernetes: each of its schema, and all of one mind."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from tests.deploy.dockerfile import read
from tests.deploy.flink_schema import FLINK_DEPLOYMENT
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import load
from weir.pipelines.engines import job_server
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.runners.flink_options import FEWEST
from weir.transforms.runtime.secret import MOUNTS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "flink"
KUBERNETES = "1.31"
RUNS = ("submit.yaml", "resume.yaml")
POM = "{http://maven.apache.org/POM/4.0.0}"
FLINK_WORDS = ("flink-main-container",)


def documents(name: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe", pure=True).load_all((FOLDER / name).read_text()))


KUSTOMIZATION = documents("kustomization.yaml")[0]
MANIFESTS = [
    pytest.param(found, id=f"{found['kind']}-{found['metadata'].get('name', name)}")
    for name in [*KUSTOMIZATION["resources"], *RUNS]
    for found in documents(name)
]


def one(kind: str, name: str = "cluster.yaml") -> dict[str, Any]:
    (found,) = [document for document in documents(name) if document["kind"] == kind]
    return found


CLUSTER = one("FlinkDeployment")["spec"]


def test_every_file_is_used() -> None:
    used = {*KUSTOMIZATION["resources"], *KUSTOMIZATION["configMapGenerator"][0]["files"], *RUNS}
    assert {path.name for path in FOLDER.glob("*.yaml")} == used | {"kustomization.yaml"}


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_manifest_is_of_its_schema(manifest: dict[str, Any]) -> None:
    if manifest["kind"] == "FlinkDeployment":
        jsonschema.Draft202012Validator(FLINK_DEPLOYMENT).validate(manifest)
        return
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    assert manifest["kind"] == "Namespace" or manifest["metadata"]["namespace"] == "weir"


@pytest.mark.parametrize("part", ["", "jobManager", "taskManager"])
def test_pods_inside_the_cluster_are_kubernetes_own(part: str) -> None:
    template = (CLUSTER[part] if part else CLUSTER).get("podTemplate")
    if template is None:
        assert part == "jobManager"
        return
    spec = {**template["spec"]}
    # The operator puts the image of Flink's own container in; everything else is ours.
    spec["containers"] = [
        {"image": CLUSTER["image"], **c} if c["name"] in FLINK_WORDS else c
        for c in spec["containers"]
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_broken_manifests_are_seen() -> None:
    with pytest.raises(jsonschema.ValidationError):
        wrong = {**one("FlinkDeployment"), "spec": {**CLUSTER, "flinkversion": "v1_19"}}
        jsonschema.Draft202012Validator(FLINK_DEPLOYMENT).validate(wrong)
    claim = one("PersistentVolumeClaim", "state.yaml")
    claim["spec"]["accessMode"] = claim["spec"].pop("accessModes")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(claim, KUBERNETES, strict=True)


def test_job_plans_and_fits_the_cluster() -> None:
    job = load(FOLDER / "job.yaml")
    plan_of(job)
    slots = int(CLUSTER["flinkConfiguration"]["taskmanager.numberOfTaskSlots"])
    assert job.engine.parallelism == slots * CLUSTER["taskManager"]["replicas"]
    assert int(CLUSTER["flinkConfiguration"]["pipeline.max-parallelism"]) == FEWEST
    assert job.secret is not None and job.secret.kind == "kubernetes"


def test_state_is_one_folder_for_flink_and_submitter() -> None:
    job = load(FOLDER / "job.yaml")
    settings = CLUSTER["flinkConfiguration"]
    place = job.engine.checkpoints
    assert settings["state.checkpoints.dir"] == f"file://{place}/checkpoints"
    assert settings["state.savepoints.dir"] == f"file://{place}/savepoints"
    claim = one("PersistentVolumeClaim", "state.yaml")["metadata"]["name"]
    pods = [CLUSTER["podTemplate"]["spec"]]
    pods += [one("Job", name)["spec"]["template"]["spec"] for name in RUNS]
    workers = CLUSTER["taskManager"]["podTemplate"]["spec"]["containers"][-1]
    mounted = {m["name"]: m["mountPath"] for m in workers["volumeMounts"]}
    assert mounted["state"] == place, "workers note there what they acknowledge"
    for pod in pods:
        (volume,) = [v for v in pod["volumes"] if "persistentVolumeClaim" in v]
        assert volume["persistentVolumeClaim"]["claimName"] == claim
        (container,) = pod["containers"]
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        assert mounts[volume["name"]] == place


def test_secret_is_mounted_where_the_config_looks_and_never_in_flink() -> None:
    secret = load(FOLDER / "job.yaml").secret
    assert secret is not None
    name, _, key = secret.value.rpartition("/")
    place = f"{MOUNTS}/{name}"
    main_containers, holders = [], []
    for pod in [CLUSTER["podTemplate"], CLUSTER["taskManager"]["podTemplate"]]:
        for container in pod["spec"]["containers"]:
            (main_containers if container["name"] in FLINK_WORDS else holders).append(container)
    for name_of_run in RUNS:
        holders += one("Job", name_of_run)["spec"]["template"]["spec"]["containers"]
    for container in holders:
        (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == place]
        assert mount["readOnly"] is True
    for container in main_containers:
        assert MOUNTS not in str(container)
    assert name == "weir-noise" and key == "secret.key"
    # A value, as an environment variable or in a manifest, would be shown by `kubectl describe`.
    text = "".join(path.read_text() for path in FOLDER.glob("*.yaml"))
    assert "kind: Secret" not in text and "secretKeyRef" not in text and "env:" not in text


def test_workers_are_beside_each_taskmanager() -> None:
    containers = CLUSTER["taskManager"]["podTemplate"]["spec"]["containers"]
    (workers,) = [c for c in containers if c["name"] not in FLINK_WORDS]
    assert workers["args"] == ["--worker_pool"]
    port = workers["readinessProbe"]["tcpSocket"]["port"]
    for name in RUNS:
        (container,) = one("Job", name)["spec"]["template"]["spec"]["containers"]
        assert f"--environment_config=localhost:{port}" in container["args"]
        assert "--environment_type=EXTERNAL" in container["args"]
        assert container["image"].rpartition(":")[2] == workers["image"].rpartition(":")[2]


@pytest.mark.parametrize("name", RUNS)
def test_arguments_are_those_of_weir_run(name: str) -> None:
    (container,) = one("Job", name)["spec"]["template"]["spec"]["containers"]
    command, config, *flags = container["args"]
    assert command == "run" and config == "/etc/weir/job.yaml"
    ours = {option for p in main.commands["run"].params for option in p.opts}
    names = [flag.partition("=")[0] for flag in flags]
    beams = {"--environment_type", "--environment_config"}
    assert set(names) <= ours | beams and "--detach" in names
    assert ("--resume" in names) == (name == "resume.yaml")
    master = next(flag for flag in flags if flag.startswith("--flink-master"))
    assert master == f"--flink-master={one('FlinkDeployment')['metadata']['name']}-rest:8081"


def test_arguments_are_understood(tmp_path: Path) -> None:
    """They get as far as looking for the cluster, which is not here."""
    (container,) = one("Job", "submit.yaml")["spec"]["template"]["spec"]["containers"]
    flags = [flag for flag in container["args"][2:] if "flink-master" not in flag]
    (tmp_path / "secret.key").write_bytes(bytes(32))
    (tmp_path / "secret.key").chmod(0o600)
    change = f"--set=engine.checkpoints={tmp_path / 'state'}"
    secret = f"--secret-file={tmp_path / 'secret.key'}"
    where = f"--set=sink.parquet={tmp_path / 'out'}"
    arguments = ["run", str(FOLDER / "job.yaml"), *flags, "--flink-master=127.0.0.1:1"]
    done = CliRunner().invoke(main, [*arguments, change, secret, where])
    assert done.exit_code == 2, done.output
    assert "--flink-master" in done.output and "does not answer" in done.output


def test_submitter_has_the_jar_and_the_flink_of_the_cluster() -> None:
    steps = read(FOLDER / "Dockerfile")
    version = CLUSTER["flinkVersion"].removeprefix("v").replace("_", ".")
    assert CLUSTER["image"].startswith(f"flink:{version}.")
    pom = ElementTree.parse(job_server.SOURCES / "pom.xml").getroot()
    runners = [found.text for found in pom.iter(f"{POM}artifactId")]
    assert f"beam-runners-flink-{version}" in runners
    # The class files of ours must be readable by the TaskManagers' Java.
    (release,) = [found.text for found in pom.iter(f"{POM}maven.compiler.release")]
    assert CLUSTER["image"].endswith(f"-java{release}")
    copied = [word for s in steps if s.word == "COPY" for word in s.words]
    for name in RUNS:
        (container,) = one("Job", name)["spec"]["template"]["spec"]["containers"]
        jar = next(a for a in container["args"] if a.startswith("--flink-job-server-jar="))
        assert jar.partition("=")[2] in copied


def test_submitter_builds_the_job_server_that_make_flink_does() -> None:
    steps = read(FOLDER / "Dockerfile")
    stage = next(i for i, s in enumerate(steps) if s.rest.endswith("AS server"))
    folder, copy, build = steps[stage + 1 : stage + 4]
    assert copy.words == [str(job_server.SOURCES.resolve().relative_to(ROOT)), "./"]
    assert build.rest.startswith("mvn ") and build.rest.endswith(" package")
    taken = next(s for s in steps if s.flags.get("from") == "server")
    assert taken.words[0] == f"{folder.rest}/target/{job_server.JAR}"


def test_accounts_have_least_rights() -> None:
    found = documents("accounts.yaml")
    (role,) = [d for d in found if d["kind"] == "Role"]
    assert [rule["resources"] for rule in role["rules"]] == [["configmaps"]]
    assert not [d for d in found if d["kind"].startswith("Cluster")]
    (submit,) = [d for d in found if d["metadata"]["name"] == "weir-submit"]
    assert submit["automountServiceAccountToken"] is False
    names = {d["metadata"]["name"] for d in found if d["kind"] == "ServiceAccount"}
    used = {CLUSTER["serviceAccount"]}
    used |= {one("Job", n)["spec"]["template"]["spec"]["serviceAccountName"] for n in RUNS}
    assert used == names


def test_pods_keep_the_restricted_standard() -> None:
    pods = [CLUSTER["podTemplate"]["spec"], CLUSTER["taskManager"]["podTemplate"]["spec"]]
    pods += [one("Job", name)["spec"]["template"]["spec"] for name in RUNS]
    users = set()
    for pod in pods:
        context = pod.get("securityContext", CLUSTER["podTemplate"]["spec"]["securityContext"])
        assert context["runAsNonRoot"] and context["seccompProfile"]["type"] == "RuntimeDefault"
        users.add(context["runAsUser"])
        for container in pod["containers"]:
            if pod is pods[1] and container["name"] in FLINK_WORDS:
                continue  # merged with the common one
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}
    (user,) = users
    image = next(s.rest for s in read(ROOT / "deploy" / "Dockerfile") if s.word == "USER")
    assert image == f"{user}:{user}"


def test_network_is_closed_but_for_what_is_named() -> None:
    policies = {p["metadata"]["name"]: p["spec"] for p in documents("network.yaml")}
    closed = policies["closed"]
    assert closed["podSelector"] == {} and set(closed["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in closed and "egress" not in closed
    open_ports = {p["port"] for rule in policies["flink"]["ingress"] for p in rule["ports"]}
    settings = CLUSTER["flinkConfiguration"]
    assert int(settings["metrics.reporter.prom.port"]) in open_ports
    assert int(settings["taskmanager.data.port"]) in open_ports
    assert 50000 not in open_ports
    assert all(rule.get("from") for rule in policies["flink"]["ingress"])


def test_disruption_budgets_select_the_operators_pods() -> None:
    for budget in documents("disruption.yaml"):
        labels = budget["spec"]["selector"]["matchLabels"]
        assert labels["app"] == one("FlinkDeployment")["metadata"]["name"]
        assert re.fullmatch("jobmanager|taskmanager", labels["component"])
