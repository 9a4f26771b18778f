"""The recipes of the guide run as written."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import calibrant.torch as ct

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "training.md"
RECIPES = dict(
    re.findall(r"^## Recipe: (.+?)\n.*?```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
)


def run(name, folder, processes=1):
    script = folder / "recipe.py"
    script.write_text("import warnings\n\nwarnings.simplefilter('ignore')\n" + RECIPES[name], "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    workers = [
        subprocess.Popen(
            [sys.executable, str(script)],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | (common | {"RANK": str(rank)} if processes > 1 else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    out = []
    for worker in workers:
        shown, errors = worker.communicate(timeout=900)
        assert worker.returncode == 0, errors[-3000:]
        out.append(shown)
    return out


def test_there_are_recipes():
    assert list(RECIPES) == [
        "mixed precision",
        "segmentation",
        "several processes",
        "Lightning",
        "Hugging Face Trainer",
    ]


def test_the_plain_loop_runs_and_learns(capsys):
    (program,) = re.findall(r"^## Five lines.*?```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    torch.manual_seed(0)
    exec(program, {})  # noqa: S102  # our own page
    found = [re.search(r"'accuracy': ([\d.]+), 'ece'", line) for line in capsys.readouterr().out.splitlines()]
    assert [float(epoch[1]) for epoch in found] == sorted(float(epoch[1]) for epoch in found)
    assert len(found) == 3


def test_guide_table_and_defaults_name_one_weight():
    said = dict(re.findall(r"^\| `(\w+)\(\)` \|[^|]*\| ([\d.]+) \|", GUIDE.read_text("utf-8"), re.MULTILINE))
    assert {name: float(weight) for name, weight in said.items()} == {
        name: getattr(ct, name)().default_weight for name in ("MMCELoss", "UCELoss", "EntropyPenalty", "SoftECELoss")
    }
    table = (GUIDE.parents[1] / "tables" / "penalties.md").read_text("utf-8")
    rows = set(re.findall(r"^\| ([^|]+) \| ([\d.]+) \(default\)", table, re.MULTILINE))
    assert {name: float(weight) for name, weight in rows} == {
        "MMCE": ct.MMCELoss().default_weight,
        "MMCE, authors' program": ct.MMCELoss(normalization="official").default_weight,
        "UCE": ct.UCELoss().default_weight,
        "entropy": ct.EntropyPenalty().default_weight,
        "soft ECE": ct.SoftECELoss().default_weight,
    }


@pytest.mark.parametrize("name", ["mixed precision", "segmentation"])
def test_recipe(tmp_path, name):
    assert "'ece'" in run(name, tmp_path)[0]


def test_recipe_of_two_processes(tmp_path):
    one, two = run("several processes", tmp_path, processes=2)
    assert one == two
    assert "'ece'" in one


@pytest.mark.lightning
@pytest.mark.parametrize("name", ["Lightning", "Hugging Face Trainer"])
def test_recipe_of_other_libraries(tmp_path, name):
    assert run(name, tmp_path)[0].strip()
