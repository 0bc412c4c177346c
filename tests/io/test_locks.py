"""One process per folder at a time, however the previous one ended; and a training never overwrites its starting point."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from poli.errors import FormatError
from poli.io import atomic
from poli.io.atomic import sole_user

HOLD = """
import sys, time
from pathlib import Path
from poli.io.atomic import sole_user
with sole_user(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    time.sleep(600)
"""


def holding(folder) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_folder_stays_locked_until_its_holder_is_killed(tmp_path):
    process = holding(tmp_path)
    with pytest.raises(FormatError, match="taken"), sole_user(tmp_path, "taken"):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with sole_user(tmp_path, "taken"):
        assert not list(tmp_path.iterdir())
        with pytest.raises(FormatError, match="again"), sole_user(tmp_path, "again"):
            pass


def test_missing_lock_support_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.fcntl, "flock", unsupported)
    with pytest.warns(UserWarning, match="this file system has no locks"), sole_user(tmp_path, "taken"):
        pass


def unsupported(*_):
    raise OSError(errno.ENOLCK, "No locks available")


# --- training


def test_two_trainings_do_not_share_a_folder(tmp_path):
    pytest.importorskip("torch")
    from poli.train.config import read_config
    from poli.train.trainer import train
    from tiny_training import tiny

    config = tiny(tmp_path, 2)
    (tmp_path / "run").mkdir()
    process = holding(tmp_path / "run")
    try:
        with pytest.raises(FormatError, match=r"run: another training.*choose another folder"):
            train(read_config(config), tmp_path / "run")
        assert not list((tmp_path / "run").iterdir())
    finally:
        process.kill()
        process.communicate()
    train(read_config(config), tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*"))


def test_no_training_overwrites_its_starting_point(tmp_path):
    pytest.importorskip("torch")
    from dataclasses import replace

    from poli.train.adapt import check_free
    from poli.train.config import read_config
    from poli.train.trainer import train
    from tiny_training import tiny

    config = read_config(tiny(tmp_path, 2))
    model = train(config, tmp_path / "run")
    before = model.read_bytes()
    again = replace(config, name="again", initial=str(model))
    for fresh in (False, True):
        with pytest.raises(FormatError, match="input and output are the same"):
            train(again, tmp_path / "run", fresh=fresh)
    os.link(model, tmp_path / "link.safetensors")
    with pytest.raises(FormatError, match="input and output are the same"):
        check_free(tmp_path / "run", True, str(tmp_path / "link.safetensors"))
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    with pytest.raises(FormatError, match=r"model\.safetensors: .*without the checkpoint.*--fresh"):
        train(config, tmp_path / "run")
    assert model.read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "log.csv").write_text("name,phone\nAda,12\n")
    with pytest.raises(FormatError, match="not a log of `poli train`"):
        train(config, tmp_path / "other")
    assert (tmp_path / "other" / "log.csv").read_text() == "name,phone\nAda,12\n"


def test_the_bytes_of_tensors_depend_only_on_their_values(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors import safe_open

    from poli.train.model_file import write_tensors

    tensors = {f"t{i}": torch.arange(i + 1, dtype=kind) for i, kind in enumerate((torch.float32, torch.int64, torch.float64))}
    metadata = {f"key {i}": f"ä {i}" for i in range(20)}
    write_tensors(tmp_path / "a.safetensors", tensors, metadata)
    write_tensors(tmp_path / "b.safetensors", dict(reversed(tensors.items())), dict(reversed(metadata.items())))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert file.metadata() == metadata
        assert all(torch.equal(file.get_tensor(name), tensors[name]) for name in tensors)
