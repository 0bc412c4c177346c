"""The tables and the picture of `poli bench registration`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poli.bench.augmentation_contestants import AUGMENTATIONS, POLI, RAW
from poli.bench.place_pairs import success
from poli.bench.report import Report
from poli.bench.table_cells import NONE
from poli.show.figure import pyplot, save_figure

if TYPE_CHECKING:
    from poli.bench.registration import Outcomes, RegistrationBench

LIMITS = {"10°": (10.0, np.inf), "5°, 2 m": (5.0, 2.0), "10°, 2 m": (10.0, 2.0)}  # degrees, metres
_STRICT = "5°, 2 m"


def places_report(outcomes: Sequence[Outcomes], bench: RegistrationBench, command: str) -> Report:
    """Means over the places by every limit, each place by the strict one, and other voxel sizes."""
    rows, figures = [], {}
    main = [o for o in outcomes if o.job.table == "places"]
    for system in dict.fromkeys(o.job.system for o in main):
        of_system = [o for o in main if o.job.system == system]
        for name, limits in LIMITS.items():
            rows.append([system, _voxel(of_system), "**all places**", name, *_cells(of_system, limits)])
            figures[f"{system}, {name}"] = _means(of_system, limits)
        for place in bench.places:
            of_place = [o for o in of_system if _place(o) == place]
            rows.append([system, _voxel(of_place), place, _STRICT, *_cells(of_place, LIMITS[_STRICT])])
    few = ", ".join(bench.places[: bench.fewer_places])
    for voxel in bench.other_voxels:
        for system in dict.fromkeys(o.job.system for o in outcomes if o.job.table == "voxels"):
            swept = [o for o in outcomes if (o.job.table, o.job.system, o.job.voxel) == ("voxels", system, voxel)]
            if not swept:
                continue
            rows.append([system, f"{voxel:g} m", f"{few}, {bench.fewer} pairs each", _STRICT, *_cells(swept, LIMITS[_STRICT])])
            figures[f"{system} at {voxel:g} m, {_STRICT}"] = _means(swept, LIMITS[_STRICT])
    notes = [
        f"Success in percent: {bench.pairs} random pairs a place, at most {bench.most:g} m apart, VLP-16, in simulated worlds that "
        "no model was trained on; the source is turned about its vertical axis by any angle. The best of a row is bold.",
        "KISS-Matcher runs with its defaults at the voxel size given. TEASER-like: PCA normals of 16 neighbours, FPFH of five "
        "voxels' radius, mutual matches, maximum clique, GNC-TLS with one voxel as noise bound.",
        f"{AUGMENTATIONS[1]} and {POLI} are sampled alike (`poli densify --per-point 5 --max-sigma 8 --max-thickness 0`); "
        f"{AUGMENTATIONS[2]} is the stand-in for learned upsampling of `poli bench augmentation`.",
        "`poli.register` gets raw scans and densifies them itself; it has no voxel size to choose.",
        *_times(main),
    ]
    columns = ("system", "voxel", "place", "within", *AUGMENTATIONS)
    return Report("Global registration of scans, 16 beams", command, columns, rows, notes, {"success": figures, **_every(outcomes)})


def resolutions_report(outcomes: Sequence[Outcomes], bench: RegistrationBench, command: str) -> Report:
    rows: list[list[str]] = []
    figures: dict[str, Any] = {}
    of_table = [o for o in outcomes if o.job.table == "resolutions"]
    groups = dict.fromkeys((_drive(o), o.job.beams) for o in of_table)
    for name, beams in groups:
        for system in dict.fromkeys(o.job.system for o in of_table):
            group = [o for o in of_table if (_drive(o), o.job.beams, o.job.system) == (name, beams, system)]
            for limit in (_STRICT, "10°, 2 m"):
                means = _means(group, LIMITS[limit])
                gained = NONE if POLI not in means else f"{means[POLI] - means[RAW]:+.1f}"
                rows.append([name, str(beams), system, limit, *_cells(group, LIMITS[limit], (RAW, POLI)), gained])
                figures[f"{name}, {beams} beams, {system}, {limit}"] = means
    notes = [
        "Success in percent, one model and one setting for all. Simulated: every eighth, fourth and second ring of an OS2-128; "
        f"{bench.fewer} pairs in {' and '.join(bench.places[: bench.fewer_places])} each. "
        f"Real: {bench.of_real} pairs a sequence, by its own poses. "
        f"At most {bench.most:g} m apart.",
        "`poli.register` gets raw scans, and the preset of a sensor with so many beams.",
    ]
    columns = ("scans", "beams", "system", "within", RAW, POLI, "points gained")
    return Report("Global registration of scans by beams", command, columns, rows, notes, {"success": figures})


def plot_registration(outcomes: Sequence[Outcomes], path: Path) -> None:
    """Bars of success by place and way, one row a system."""
    main = [o for o in outcomes if o.job.table == "places"]
    systems, places = list(dict.fromkeys(o.job.system for o in main)), list(dict.fromkeys(_place(o) for o in main))
    plt = pyplot()
    figure, axes = plt.subplots(len(systems), 1, figsize=(8.0, 0.6 + 2.0 * len(systems)), squeeze=False, sharex=True)
    colours = dict(zip(AUGMENTATIONS, ("#9e9e9e", "#546e7a", "#fb8c00", "#e53935"), strict=True))
    for drawn, system in zip(axes[:, 0], systems, strict=True):
        ways = [w for w in AUGMENTATIONS if any(o.job.system == system and o.job.way == w for o in main)]
        for number, way in enumerate(ways):
            values = [_means([o for o in main if (o.job.system, _place(o)) == (system, p)], LIMITS[_STRICT])[way] for p in places]
            x = np.arange(len(places)) + (number - 0.5 * (len(ways) - 1)) * 0.8 / len(ways)
            drawn.bar(x, values, 0.8 / len(ways), label=way, color=colours[POLI if len(ways) == 1 else way])
        drawn.set_xticks(range(len(places)), places)
        drawn.set(ylim=(0, 103), ylabel=f"% within {_STRICT}")
        drawn.set_title(system, fontsize=10)
        drawn.grid(axis="y", alpha=0.25)
    axes[0, 0].legend(fontsize=8, loc="lower right", ncol=4)
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)


def _means(group: Sequence[Outcomes], limits: tuple[float, float]) -> dict[str, float]:
    """By way: percent, the mean over drives, in tenths as the tables have it, so that what looks equal is."""
    ways = dict.fromkeys(o.job.way for o in group)
    rates = {way: [success(o.rotations, o.translations, *limits) for o in group if o.job.way == way] for way in ways}
    return {way: round(100.0 * float(np.mean(rate)), 1) for way, rate in rates.items()}


def _cells(group: Sequence[Outcomes], limits: tuple[float, float], ways: Sequence[str] = AUGMENTATIONS) -> list[str]:
    means = _means(group, limits)
    best = max(means.values(), default=np.nan)
    stars = {way: "**" if value == best and len(means) > 1 else "" for way, value in means.items()}
    return [f"{stars[way]}{means[way]:.1f}{stars[way]}" if way in means else NONE for way in ways]


def _times(group: Sequence[Outcomes]) -> list[str]:
    """Medians of one registration, on one thread; machines differ, so as ratios to KISS-Matcher on raw scans."""
    medians: dict[tuple[str, str], list[float]] = {}
    for o in group:
        medians.setdefault((o.job.system, o.job.way), []).extend(o.seconds)
    found = {key: float(np.median(values)) for key, values in medians.items()}
    unit = found.get(("KISS-Matcher", RAW))
    if not unit:
        return []
    told = "; ".join(f"{system} {way} {value / unit:.1f}" for (system, way), value in found.items())
    return [f"Time of one registration on one thread, against KISS-Matcher on raw scans (without densifying): {told}."]


def _every(outcomes: Sequence[Outcomes]) -> dict[str, Any]:
    return {
        "errors": [
            {
                "drive": _drive(o), "place": _place(o), "system": o.job.system, "way": o.job.way, "voxel": o.job.voxel,
                "beams": o.job.beams, "table": o.job.table, "rotations_deg": np.round(o.rotations, 3).tolist(),
                "translations_m": np.round(o.translations, 3).tolist(),
            }
            for o in outcomes
        ]
    }  # fmt: skip


def _voxel(group: Sequence[Outcomes]) -> str:
    return f"{group[0].job.voxel:g} m" if group and group[0].job.voxel else NONE


def _place(outcomes: Outcomes) -> str:
    return getattr(outcomes.job.source, "place", "")


def _drive(outcomes: Outcomes) -> str:
    if outcomes.job.real:
        return str(outcomes.job.source.sequence.sequence)  # type: ignore[union-attr]
    return "simulated"
