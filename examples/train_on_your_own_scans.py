"""Tune a model to your own sensor from its scans: what `poli adapt` does, step by step. Needs the extra `train`.

    python examples/train_on_your_own_scans.py [FOLDER]

The log is simulated, with a sensor that the shipped model was not trained on. Twenty steps are enough to see it work, but too few
for a useful model: `poli adapt` takes 1,500 steps, a few minutes.
"""

# %% A sensor defined by its beams, and a log of it
import sys
from pathlib import Path

import numpy as np

import poli
from poli.train.adapt import AdaptConfig, adapt
from poli.train.tracked_log import TrackedLog
from poli.train.trainer import Listener, StepReport
from poli.worlds import Ride, World, find_sensor
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "example_output")
folder.mkdir(parents=True, exist_ok=True)

table = folder / "my_sensor.txt"  # elevations in degrees, one per line; settings in comments
table.write_text("# steps 900\n# max_range 80\n# noise 0.03\n" + "\n".join(f"{e:.2f}" for e in np.linspace(-22.0, 9.0, 20)))
drive = Drive(World(make_place("roundabout", 2_000_001)), find_sensor(str(table)), Ride(speed=8.0), count=16)
scans = [scan.keep() for scan in drive]  # points and stamps, without ground truth

# %% Odometry provides the poses and their uncertainty
odometer = poli.Odometer(poli.OdometryConfig(on_loss="restart"))
for scan in scans:
    odometer.add(scan)
log = TrackedLog.of("my sensor", scans, odometer.steps)
print(f"{len(log.scans)} scans, {log.meters:.0f} m driven, {int(log.trusted.sum())} poses trusted")


# %% Training on pairs of scans changes the sizes of the ellipsoids, not their directions. The last fifth of the log is held out.
class Print(Listener):
    def step(self, report: StepReport, total: int) -> None:
        if report.step % 10 == 0:
            print(f"step {report.step} of {total}: loss {report.loss:.3f}, mean of d'(2C)^-1 d {report.nees:.2f} (3 if calibrated)")


settings = AdaptConfig(steps=20, pairs=10, points=512)
result = adapt(log, folder / "my_sensor", "lidar", settings, Print(), fresh=True, force=True)  # force: write it even if not better
before, after = result.before, result.after
print(f"held out: NLL {before.nll:.3f} before and {after.nll:.3f} after, {'better' if result.kept else 'not better'}")

# %% Use its path wherever a model name is expected
field = poli.estimate(scans[0], model=result.model or "lidar")
print(f"{result.model}: {len(field)} ellipsoids, {100 * np.median(field.scales[:, 0]):.1f} cm thick (median)")
