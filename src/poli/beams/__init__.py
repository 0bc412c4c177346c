"""Find the constant errors of a spinning sensor's beams in a log."""

from poli.beams.calibrate import Calibrated, calibrate
from poli.beams.calibrate import CalibrateConfig
from poli.beams.calibrate import HeldOut


__all__ = ["CalibrateConfig", "Calibrated", "HeldOut", "calibrate"]
