"""The files around the code agree with each other, and the scripts that guard them can fail."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib

import pytest

from helpers import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def script(name):
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parts(version):
    return tuple(int(part) for part in version.split("."))


def lower_bounds():
    extras = PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] + [line for name in ("plots", "engines", "onnx") for line in extras[name]]
    return dict(re.fullmatch(r"([a-z0-9.-]+)>=([\d.]+)(?:; python_version < '3.14')?", line).groups() for line in lines)


def test_oldest_lane_installs_the_lower_bounds():
    text = (ROOT / "requirements" / "oldest.txt").read_text(encoding="utf-8")
    pins = dict(line.split("==") for line in text.splitlines() if line and not line.startswith("#"))
    bounds = lower_bounds()
    assert set(pins) == set(bounds) | {"pyparsing"}  # which Matplotlib brings
    for name, bound in bounds.items():  # 2.2.0 is the oldest release of >=2.2
        assert parts(pins[name])[: len(parts(bound))] == parts(bound), name
        assert not any(parts(pins[name])[len(parts(bound)) :]), name


def test_citation_has_the_version_and_the_address():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['version']}\n" in text
    assert f"\nrepository-code: {PROJECT['urls']['Source']}\n" in text
    assert f"\nlicense: {PROJECT['license']}\n" in text


def test_workflows_and_hooks_call_programs_that_exist():
    yaml = pytest.importorskip("yaml", reason="PyYAML is absent (requirements/dev.txt)")
    commands = []
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            commands += [step["run"] for step in job["steps"] if "run" in step]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert {repository["repo"] for repository in hooks} == {"local"}, "hooks must not be fetched"
    commands += [hook["entry"] for repository in hooks for hook in repository["hooks"]]
    assert {command.split()[0] for command in commands} == {".ci/run", ".ci/nightly", ".ci/tool"}
    for command in commands:
        for word in command.split():
            if word.startswith((".ci/", "changelog.d/", "decisions/")):
                assert (ROOT / word).exists(), word
        assert os.access(ROOT / command.split()[0], os.X_OK)


def test_lanes_of_the_workflow_are_known_to_the_script():
    known = (ROOT / ".ci" / "nightly").read_text(encoding="utf-8")
    lanes = re.findall(r"lane: ([\w.]+),", (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8"))
    assert len(lanes) >= 6
    for lane in lanes:
        assert re.search(rf"^    {'py3.' if lane.startswith('py') else lane}", known, flags=re.MULTILINE), lane
    (alone,) = re.findall(r"lanes=\(([\w. ]+)\)", known)
    assert set(alone.split()) == set(lanes), "a night here and a night of the workflow are the same lanes"
    targets = set(re.findall(r"make (test-\w+)", known))
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets <= set(re.findall(r"^(test-\w+):", made, flags=re.MULTILINE))


def test_a_lane_that_fails_is_named_and_the_next_runs(tmp_path):
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "nightly").write_text((ROOT / ".ci" / "nightly").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "Makefile").write_text("test-plain:\n\t@false\ntest-slow:\n\t@echo simulated\n", encoding="utf-8")
    command = ["bash", ".ci/nightly", "plain", "nowhere", "slow"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # as from a shell
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    ends = [line.split()[:2] for line in done.stdout.partition("== lanes\n")[2].splitlines()]
    assert (done.returncode, ends) == (1, [["plain", "FAILED"], ["nowhere", "FAILED"], ["slow", "passed"]])
    assert (tmp_path / "out" / "nightly" / "slow.log").read_text(encoding="utf-8") == "simulated\n"


def test_every_classifier_of_a_python_has_a_lane():
    named = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    assert named == set(re.findall(r'python: "(3\.\d+)"', nightly))


def test_coverage_below_its_floor_or_without_one_is_named():
    coverage = script("floors")
    counts = {"core": (1000, 899), "io": (10, 10), "new": (5, 5)}
    assert coverage.problems(counts, {"core": 89.9, "io": 100, "new": 0}) == []
    assert coverage.problems(counts, {"core": 90, "io": 100, "gone": 50}) == [
        "new has no floor in .ci/floors.toml",
        "gone has a floor and does not exist",
        "core: 89.9% of lines run, floor 90%",
    ]
    assert "899" not in "\n".join(coverage.table(counts, {}))


def test_scripts_do_not_hide_a_library():  # a script's folder comes first on the path of its imports
    names = [path.stem for path in (ROOT / ".ci").glob("*.py")]
    assert "floors" in names
    assert [name for name in names if importlib.util.find_spec(name)] == []


def test_every_subpackage_has_a_floor():
    floors = tomllib.loads((ROOT / ".ci" / "floors.toml").read_text(encoding="utf-8"))
    coverage = script("floors")
    assert set(floors) == {coverage.subpackage(path) for path in coverage.SOURCE.rglob("*.py")}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"x \n", "line 1: blanks at the end"),
        (b"x", "no newline at the end"),
        (b"x\n\n", "blank lines at the end"),
        (b"x\r\n", "carriage returns"),
        (b"a\n<<<<<<< HEAD\n", "line 2: conflict mark"),
        (b"x\n", None),
        (b"\0 ", None),
    ],
)
def test_text_files(tmp_path, data, problem):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert script("text").problems(path) == ([problem] if problem else [])


def test_skipped_tests_are_listed_and_fatal_in_ci(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_one.py").write_text(
        "import pytest\npytest.importorskip('absent_one', reason='no first library')\n"
    )
    (tmp_path / "test_two.py").write_text(
        "import pytest\ndef test_a():\n    pytest.skip('no second library')\ndef test_b():\n    pass\n"
    )
    clean = {name: value for name, value in os.environ.items() if name not in {"CI", "CALIBRANT_SKIPS"}}
    ends = []
    for extra in ({}, {"CI": "true"}, {"CI": "true", "CALIBRANT_SKIPS": "list"}):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
        done = subprocess.run(command, cwd=tmp_path, env=clean | extra, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        assert lines[-5:-1] == ["no first library:", "  test_one.py", "no second library:", "  test_two.py::test_a"], (
            done.stdout
        )
        ends.append(done.returncode)
    assert ends == [0, 1, 0]
