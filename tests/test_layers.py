"""Holds the direction of imports between layers and between rooms."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.sources import (
    FILES,
    PACKAGES,
    ROOT,
    SOURCES,
    Code,
    code_of,
    faults_of,
    module_of,
    name_of,
    within,
)

MAY_IMPORT = {
    "dpcore": {"dpcore"},
    "transforms": {"dpcore", "transforms"},
    "pipelines": {"dpcore", "transforms", "pipelines"},
    "weir": {"dpcore", "transforms", "pipelines", "weir"},
}

ROOMS = {
    "dpcore": [
        "errors",
        "words",
        "native",
        "arrays",
        "accounting",
        "noise",
        "leaves",
        "config",
        "users",
        "neighbours",
        "continual",
        "training",
        "program",
        "discovery",
        "registry",
        "geometry",
        "pricing",
        "algorithm",
        "aggregates",
        "models.kit",
        "models",
        "models.solvers",
        "models.regression",
        "models.online",
        "models.erm",
        "models.blocks",
        "models.optimize",
        "spaced",
        "plan_checks",
        "plan_config",
        "plan_html",
        "plan_guarantee",
        "plan_warnings",
        "plan",
        "estimates",
        "bounded_events",
        "simulate",
        "audit",
    ],
    "transforms": [
        "runtime",
        "columns",
        "decode",
        "formats",
        "sources",
        "release",
        "sinks",
        "operators",
        "local",
        "beam",
    ],
    "pipelines": [
        "terminal",
        "vega",
        "connectors",
        "results",
        "estimates",
        "sources",
        "sinks",
        "ledger",
        "config",
        "engines",
        "graph",
        "runners",
        "feed",
        "run",
        "verify",
        "rehearse",
        "init",
        "report",
        "predict",
        "audit",
        "show",
        "watch",
        "notebook",
        "cli",
    ],
    "weir": ["__init__", "__main__", "estimators", "beam_yaml"],
}
"""Rooms of a layer, in the order in which they may import each other: only what stands before. A
file that lies at the top of a layer is a room of its own. See docs/explanation/architecture.md."""
FACES = (
    "dpcore.accounting",
    "dpcore.aggregates",
    "dpcore.audit",
    "dpcore.config",
    "dpcore.continual",
    "dpcore.discovery",
    "dpcore.estimates",
    "dpcore.geometry",
    "dpcore.leaves",
    "dpcore.models.blocks",
    "dpcore.models.erm",
    "dpcore.models.kit",
    "dpcore.models.online",
    "dpcore.models.optimize",
    "dpcore.models.regression",
    "dpcore.models.solvers",
    "dpcore.noise",
    "dpcore.pricing",
    "dpcore.users",
    "pipelines.audit",
    "pipelines.cli",
    "pipelines.config",
    "pipelines.connectors",
    "pipelines.engines",
    "pipelines.estimates",
    "pipelines.ledger",
    "pipelines.rehearse",
    "pipelines.report",
    "pipelines.results",
    "pipelines.runners",
    "pipelines.show",
    "pipelines.sinks",
    "pipelines.verify",
    "pipelines.watch",
)
"""Packages whose ``__all__`` lists what other packages may import of them."""

BARE_IN_TEXT = re.compile(r"(?:\b|\\n)(?:from|import) (?:dpcore|transforms|pipelines)\.[a-z]\w*")
"""In code that is run as text."""


def layer_of(module: str) -> str:
    """The layer of a module of ours; of others the first name."""
    first, _, rest = module.partition(".")
    second = rest.partition(".")[0]
    return second if first == "weir" and second in PACKAGES else first


def layer_faults(package: str, code: Code) -> list[str]:
    ours = {*PACKAGES, "tests", "benchmarks", "examples"} - MAY_IMPORT[package]
    return [
        f"line {line}: {package} imports {module}"
        for line, module in code.imports
        if layer_of(module) in ours
    ]


def bare_imports(code: Code) -> list[str]:
    """Imports of a layer by the name of its folder. In a checkout they succeed, and make every
    class a second time, which ``except`` and ``isinstance`` miss."""
    return [
        f"line {line}: write weir.{module}"
        for line, module in code.imports
        if module.partition(".")[0] in {"dpcore", "transforms", "pipelines"}
    ]


def room_of(module: str) -> tuple[str, str]:
    """Layer and room of a module of ours: the longest name of a room that it begins with."""
    layer = layer_of(module)
    rest = module.removeprefix("weir").removeprefix(f".{layer}").removeprefix(".")
    fitting = [room for room in ROOMS[layer] if within(rest, room)]
    return layer, max(fitting, key=len, default="")


def room_faults(module: str, code: Code) -> list[str]:
    """Imports of rooms that come later, by a module of ours."""
    layer, mine = room_of(module)
    if not mine:
        return [f"{module} lies in no room"]
    order, found = ROOMS[layer], []
    for line, imported in code.imports:
        if layer_of(imported) == layer:
            theirs = room_of(imported)[1]
            if not theirs or order.index(theirs) > order.index(mine):
                found.append(f"line {line}: {mine} imports {imported}")
    return found


def modules_of_ours() -> dict[str, Path]:
    """Dotted name -> file of every module."""
    found = {}
    for path in FILES:
        found[module_of(path).removesuffix(".__init__")] = path
    return found


def circles(arrows: dict[str, set[str]]) -> list[str]:
    """Names that can be reached from themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = list(arrows.get(start, ()))
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left += arrows.get(name, ())
        return seen

    return sorted(name for name in arrows if name in reached(name))


def face_of(package: str) -> list[str]:
    """``__all__`` of a package of ours, by its dotted name below ``weir``."""
    path = ROOT / package.replace(".", "/") / "__init__.py"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def face_faults(module: str, code: Code, faces: Mapping[str, Sequence[str]]) -> list[str]:
    """Imports, by a module of ours, of what a package does not export: a module of it that is not
    in ``__all__``, or a name with an underscore in front."""
    found = []
    for line, imported in code.imports:
        for package, exported in faces.items():
            inside = f"weir.{package}"
            if not within(imported, inside) or within(module, inside) or imported == inside:
                continue
            first, *names = imported.removeprefix(f"{inside}.").split(".")
            if first not in exported or any(name.startswith("_") for name in names):
                found.append(f"line {line}: {package} does not export {imported}")
    return found


@pytest.mark.slow
def test_imports_never_point_back() -> None:
    def rule(path: Path) -> list[str]:
        return layer_faults(path.relative_to(ROOT).parts[0], code_of(path))

    assert len(FILES) > 400
    assert faults_of(FILES, rule) == {}


@pytest.mark.slow
def test_layers_are_imported_by_their_installed_names() -> None:
    assert faults_of(SOURCES, lambda path: bare_imports(code_of(path))) == {}
    others = [path for path in SOURCES if path != Path(__file__)]
    assert faults_of(others, lambda path: BARE_IN_TEXT.findall(path.read_text())) == {}


def test_rooms_import_only_rooms_before_them() -> None:
    files = [path for path in FILES if path.name != "__init__.py"]
    assert faults_of(files, lambda path: room_faults(module_of(path), code_of(path))) == {}


def test_packages_import_only_what_others_export() -> None:
    faces = {package: face_of(package) for package in FACES}
    assert faults_of(FILES, lambda path: face_faults(module_of(path), code_of(path), faces)) == {}


@pytest.mark.parametrize("package", FACES)
def test_a_face_says_what_a_package_is_for(package: str) -> None:
    folder = ROOT / package.replace(".", "/")
    text = (folder / "__init__.py").read_text()
    assert 3 <= len((ast.get_docstring(ast.parse(text)) or "").splitlines()) <= 10
    exported = face_of(package)
    assert exported == sorted(exported)
    assert {path.stem for path in folder.glob("*.py")} >= set(exported)


def test_a_hidden_import_is_seen() -> None:
    faces = {"dpcore.noise": ["prf"]}
    code = Code("from weir.dpcore.noise.acceptance import accept")
    assert face_faults("weir.dpcore.plan", code, faces)
    assert not face_faults("weir.dpcore.noise.prf", code, faces)
    assert not face_faults("weir.dpcore.plan", Code("from weir.dpcore.noise import prf"), faces)
    assert face_faults("weir.dpcore.plan", Code("from weir.dpcore.noise.prf import _a"), faces)


def test_no_file_reaches_itself_through_its_imports() -> None:
    ours = modules_of_ours()
    arrows: dict[str, set[str]] = {}
    for name, path in ours.items():
        for _, imported in code_of(path).imports:
            target = imported if imported in ours else imported.rpartition(".")[0]
            if target in ours and target != name:
                arrows.setdefault(name, set()).add(target)
    assert circles(arrows) == []


@pytest.mark.slow
@pytest.mark.parametrize(("package", "other"), [("tests", "benchmarks"), ("benchmarks", "tests")])
def test_tests_and_benchmarks_do_not_import_each_other(package: str, other: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert len(files) > 20
    found = [
        f"{name_of(path)}, line {line}: imports {module}"
        for path in files
        for line, module in code_of(path).imports
        if within(module, other)
    ]
    assert found == []


USES_BEAM = {
    "pipelines/engines/worker.py",
    "pipelines/graph/build.py",
    "pipelines/run/run.py",
    "pipelines/runners/dataflow.py",
    "pipelines/runners/dataflow_limits.py",
    "pipelines/runners/options.py",
    "pipelines/runners/pipeline.py",
    "pipelines/runners/views.py",
    "pipelines/sinks/dead_letters.py",
    "weir/beam_yaml.py",
}
"""What builds and runs pipelines of Beam, next to the package of its steps."""


def test_only_its_own_package_and_runners_import_beam() -> None:
    found = {
        name_of(path)
        for path in FILES
        if any(within(module, "apache_beam") for _, module in code_of(path).imports)
    }
    assert {name for name in found if not name.startswith("transforms/beam/")} == USES_BEAM


def test_every_room_is_on_the_map() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    rooms = [(layer, room) for layer, names in ROOMS.items() for room in names]
    missing = [
        f"{layer}/{room}"
        for layer, room in rooms
        if f"`{layer}/{room.replace('.', '/')}" not in text
    ]
    assert missing == []


def test_a_climbing_import_is_seen() -> None:
    code = Code("from weir.transforms.beam.tick import Tick")
    assert room_faults("weir.transforms.decode.csv", code)
    assert not room_faults("weir.transforms.beam.write_files", code)
    lost = room_faults("weir.transforms.attic.box", code)
    assert lost == ["weir.transforms.attic.box lies in no room"]


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]


@pytest.mark.parametrize(
    "code",
    [
        "import weir.transforms.beam.tick",
        "from weir.pipelines.cli import main as cli",
        "def f():\n    from weir.transforms.beam.tick import Tick",
    ],
)
def test_a_backward_import_is_seen(code: str) -> None:
    assert layer_faults("dpcore", Code(code))


@pytest.mark.parametrize(
    "code", ["import dpcore", "def f():\n    from transforms.tick import tick"]
)
def test_a_bare_import_is_seen(code: str) -> None:
    assert bare_imports(Code(code))
