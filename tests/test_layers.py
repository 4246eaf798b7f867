"""Holds the direction of imports between layers and between rooms, and keeps files, time and
randomness where they belong."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dpcore", "transforms", "pipelines", "weir")
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

FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SOURCES = [
    *FILES,
    *(
        path
        for folder in ("tests", "benchmarks", "examples", "deploy")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ),
]
"""Every Python file of the repository, each once: links are not followed."""

IMPURE = {
    "apache_beam": "Beam",
    "asyncio": "an event loop",
    "datetime.datetime.now": "the time",
    "glob": "files",
    "os": "the environment",
    "pathlib": "files",
    "shutil": "files",
    "socket": "the network",
    "subprocess": "processes",
    "tempfile": "files",
    "threading": "threads",
    "time": "the time",
    "urllib": "the network",
}
"""What dpcore must not import, and what it would get by it."""

RANDOM_MODULES = {"random", "secrets", "uuid", "numpy.random", "randomgen"}
RANDOM_CALLS = {"urandom", "getrandom", "default_rng", "RandomState", "SeedSequence", "token_bytes"}
EXCEPT = {
    "transforms/runtime/secret.py": {"secrets", "secrets.token_bytes", "secrets.token_hex"},
    "transforms/runtime/stores/bucket.py": {"uuid"},
    "transforms/runtime/stores/disk.py": {"uuid"},
    "pipelines/watch/watch.py": {"secrets"},  # the token of the operator's page
    "transforms/beam/deduplicate.py": {"uuid"},
    "transforms/beam/bound_users.py": {"uuid"},
    "transforms/beam/turns.py": {"uuid"},
    "pipelines/engines/kafka.py": {"uuid"},  # the id of a cluster
    "transforms/beam/heartbeats.py": {"uuid"},
    "transforms/beam/tick.py": {"uuid"},
}
"""What may ask the system for random bytes: a fresh secret, and names of files and of runs."""


GIVES_PANDAS = {"pipelines/notebook/released.py"}
"""What hands out frames to who asks for one, and says what to install where that is missing."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every imported module, as (line, dotted name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide the layer"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every called name, as (line, dotted name as written)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def module_of(path: Path) -> str:
    """The name by which a file of ours is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "weir" else ("weir", *parts))


BARE_IN_TEXT = re.compile(r"(?:\b|\\n)(?:from|import) (?:dpcore|transforms|pipelines)\.[a-z]\w*")
"""In code that is run as text."""


def within(module: str, parent: str) -> bool:
    return module == parent or module.startswith(parent + ".")


def layer_of(module: str) -> str:
    """The layer of a module of ours; of others the first name."""
    first, _, rest = module.partition(".")
    second = rest.partition(".")[0]
    return second if first == "weir" and second in PACKAGES else first


def layer_faults(package: str, tree: ast.AST) -> list[str]:
    ours = {*PACKAGES, "tests", "benchmarks", "examples"} - MAY_IMPORT[package]
    return [
        f"line {line}: {package} imports {module}"
        for line, module in imports(tree)
        if layer_of(module) in ours
    ]


def bare_imports(tree: ast.AST) -> list[str]:
    """Imports of a layer by the name of its folder. In a checkout they succeed, and make every
    class a second time, which ``except`` and ``isinstance`` miss."""
    return [
        f"line {line}: write weir.{module}"
        for line, module in imports(tree)
        if module.partition(".")[0] in {"dpcore", "transforms", "pipelines"}
    ]


def room_of(module: str) -> tuple[str, str]:
    """Layer and room of a module of ours: the longest name of a room that it begins with."""
    layer = layer_of(module)
    rest = module.removeprefix("weir").removeprefix(f".{layer}").removeprefix(".")
    fitting = [room for room in ROOMS[layer] if within(rest, room)]
    return layer, max(fitting, key=len, default="")


def room_faults(module: str, tree: ast.AST) -> list[str]:
    """Imports of rooms that come later, by a module of ours."""
    layer, mine = room_of(module)
    if not mine:
        return [f"{module} lies in no room"]
    order, found = ROOMS[layer], []
    for line, imported in imports(tree):
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


def face_faults(module: str, tree: ast.AST, faces: Mapping[str, Sequence[str]]) -> list[str]:
    """Imports, by a module of ours, of what a package does not export: a module of it that is not
    in ``__all__``, or a name with an underscore in front."""
    found = []
    for line, imported in imports(tree):
        for package, exported in faces.items():
            inside = f"weir.{package}"
            if not within(imported, inside) or within(module, inside) or imported == inside:
                continue
            first, *names = imported.removeprefix(f"{inside}.").split(".")
            if first not in exported or any(name.startswith("_") for name in names):
                found.append(f"line {line}: {package} does not export {imported}")
    return found


def purity_faults(tree: ast.AST) -> list[str]:
    found = [
        f"line {line}: imports {module} ({what})"
        for line, module in imports(tree)
        for impure, what in IMPURE.items()
        if within(module, impure)
    ]
    for line, call in calls(tree):
        last = call.split(".")[-1]
        if call in {"open", "input", "exec", "eval"} or last in {"getenv", "now", "today"}:
            found.append(f"line {line}: calls {call}")
        if call == "print":
            found.append(f"line {line}: calls {call}")
        if call in {"np.load", "np.save", "np.fromfile", "np.loadtxt", "np.genfromtxt"}:
            found.append(f"line {line}: calls {call}")
    for node in ast.walk(tree):
        of_sys = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sys"
        if of_sys and node.attr not in {"byteorder", "maxsize"}:
            found.append(f"line {node.lineno}: reads sys.{node.attr}")
    return found


def randomness_faults(tree: ast.AST, allowed: set[str] | None = None) -> list[str]:
    allowed = allowed or set()
    found = [
        f"line {line}: imports {module}"
        for line, module in imports(tree)
        for source in RANDOM_MODULES - allowed
        if within(module, source)
    ]
    for line, call in calls(tree):
        parts = call.split(".")
        drawn = parts[-1] in RANDOM_CALLS or "random" in parts[:-1] or "rvs" in parts
        if drawn and call not in allowed:
            found.append(f"line {line}: calls {call}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_never_point_back(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert layer_faults(package, ast.parse(path.read_text())) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_layers_are_imported_by_their_installed_names(path: Path) -> None:
    text = path.read_text()
    assert bare_imports(ast.parse(text)) == []
    assert path == Path(__file__) or BARE_IN_TEXT.findall(text) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in FILES if p.name != "__init__.py"], ids=name_of)
def test_rooms_import_only_rooms_before_them(path: Path) -> None:
    assert room_faults(module_of(path), ast.parse(path.read_text())) == []


@pytest.mark.slow
def test_packages_import_only_what_others_export() -> None:
    faces = {package: face_of(package) for package in FACES}
    found = {
        name_of(path): faults
        for path in FILES
        if (faults := face_faults(module_of(path), ast.parse(path.read_text()), faces))
    }
    assert found == {}


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
    code = ast.parse("from weir.dpcore.noise.acceptance import accept")
    assert face_faults("weir.dpcore.plan", code, faces)
    assert not face_faults("weir.dpcore.noise.prf", code, faces)
    assert not face_faults(
        "weir.dpcore.plan", ast.parse("from weir.dpcore.noise import prf"), faces
    )
    assert face_faults("weir.dpcore.plan", ast.parse("from weir.dpcore.noise.prf import _a"), faces)


@pytest.mark.slow
def test_no_file_reaches_itself_through_its_imports() -> None:
    ours = modules_of_ours()
    arrows: dict[str, set[str]] = {}
    for name, path in ours.items():
        for _, imported in imports(ast.parse(path.read_text())):
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
        for line, module in imports(ast.parse(path.read_text()))
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
    "pipelines/sinks/dead_letters.py",
    "weir/beam_yaml.py",
}
"""What builds and runs pipelines of Beam, next to the package of its steps."""


def test_only_its_own_package_and_runners_import_beam() -> None:
    found = {
        name_of(path)
        for path in FILES
        if any(within(module, "apache_beam") for _, module in imports(ast.parse(path.read_text())))
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
    code = ast.parse("from weir.transforms.beam.tick import Tick")
    assert room_faults("weir.transforms.decode.csv", code)
    assert not room_faults("weir.transforms.beam.write_files", code)
    lost = room_faults("weir.transforms.attic.box", code)
    assert lost == ["weir.transforms.attic.box lies in no room"]


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in FILES if "dpcore" in p.parts], ids=name_of)
def test_dpcore_knows_no_beam_no_files_no_time(path: Path) -> None:
    assert purity_faults(ast.parse(path.read_text())) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in FILES if "noise" not in p.parts], ids=name_of)
def test_only_dpcore_noise_makes_randomness(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert randomness_faults(tree, EXCEPT.get(name_of(path))) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_leans_on_pandas(path: Path) -> None:
    """It is no dependency of ours, and Arrow imports it behind some of its names."""
    if name_of(path) in GIVES_PANDAS:
        return
    tree = ast.parse(path.read_text())
    names = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert not [name for name in names if "pandas" in name]
    assert not [module for _, module in imports(tree) if within(module, "pandas")]


@pytest.mark.parametrize(
    "code",
    [
        "import weir.transforms.beam.tick",
        "from weir.pipelines.cli import main as cli",
        "def f():\n    from weir.transforms.beam.tick import Tick",
    ],
)
def test_a_backward_import_is_seen(code: str) -> None:
    assert layer_faults("dpcore", ast.parse(code))


@pytest.mark.parametrize(
    "code", ["import dpcore", "def f():\n    from transforms.tick import tick"]
)
def test_a_bare_import_is_seen(code: str) -> None:
    assert bare_imports(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "from time import time",
        "open('x')",
        "datetime.now()",
        "import os.path",
        "sys.argv",
        "print(1)",
    ],
)
def test_impurity_is_seen(code: str) -> None:
    assert purity_faults(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import random",
        "from numpy.random import default_rng",
        "x = np.random.default_rng(0)",
        "np.random.normal()",
        "os.urandom(32)",
        "norm.rvs(3)",
    ],
)
def test_a_generator_is_seen(code: str) -> None:
    assert randomness_faults(ast.parse(code))
