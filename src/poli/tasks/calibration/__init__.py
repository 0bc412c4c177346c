"""Find the constant errors of a spinning sensor's beams in a log."""

from poli.tasks.calibration.calibrate import Calibrated, calibrate
from poli.tasks.calibration.config import CalibrateConfig
from poli.tasks.calibration.held_out import HeldOut

__all__ = ["CalibrateConfig", "Calibrated", "HeldOut", "calibrate"]
