"""What a run was made of and how: runs that agree in this give the same bytes, so that one can go on with what another has done."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import poli
from poli.errors import FormatError
from poli.estimation.inference import load_model, shipped_models
from poli.files.atomic import atomic_path
from poli.files.overwriting import refuse_overwriting
from poli.files.tables import read_json
from poli.tasks.densify.config import DensifyConfig


def describe_run(source: Path, config: DensifyConfig, **more: Any) -> dict[str, Any]:
    """Loads the model: if that fails, nothing has been written."""
    model: dict[str, Any] = {}
    if config.model != "pca":
        load_model(config.model)
        if config.model not in shipped_models():
            model["model_sha256"] = sha256(Path(config.model).read_bytes()).hexdigest()
    return {"poli": poli.__version__, "input": str(source.resolve()), **more, **model, "densify": asdict(config)}


def read_run(path: Path) -> dict[str, Any] | None:
    """What `write_run` wrote, or None where there is nothing of the kind."""
    try:
        found = read_json(path)
    except FileNotFoundError:
        return None
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}


def write_run(path: Path, run: dict[str, Any]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(run, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Names of what differs, for an error message."""
    flat_before, flat_now = ({**run, **(run["densify"] if isinstance(run.get("densify"), dict) else {})} for run in (before, now))
    names = [name for name in {**flat_now, **flat_before} if name != "densify" and flat_before.get(name) != flat_now.get(name)]
    return ", ".join(names) or "its format"


def check_apart(source: Path, out: Path) -> None:
    refuse_overwriting(out, source)
    here, there = source.resolve(), out.resolve()
    if here in there.parents or there in here.parents:
        raise FormatError(f"{out}: input and output lie one in the other; give the output a place of its own")
