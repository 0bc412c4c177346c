"""The README's Python examples run, in order, as they stand."""

import re
from pathlib import Path

import numpy as np

import poli

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_run(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    poli.write(np.random.default_rng(0).standard_normal((200, 3)), "scan.pcd")
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert names["pose"].certified
    assert names["samples"].shape == (1400, 3)
    assert names["result"].certified
    assert names["W"].grad.shape == (100, 3, 3)
    assert (tmp_path / "splats.ply").exists()


def test_it_names_the_commands_that_must_hold():
    text = README.read_text()
    for command in ("make demo", "make test", "poli estimate", "poli register", "poli train", "poli bench objects"):
        assert command in text
