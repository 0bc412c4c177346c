"""Numbers of odometry that were tuned or set by hand, each with what it rests on. Options and their defaults are in `poli.configs`.

Tables are in docs/results. "By hand" means that no table compares other values.
"""

import numpy as np

# --- GICP. The defaults of its options (thickness, trust, robust, start) are from scan-to-scan drives in six simulated places that
# the benchmark does not use: the table in docs/odometry.md.
STILL_ANGLE, STILL_SHIFT = 1e-5, 1e-4  # radians and meters; smaller steps mean convergence. By hand, far below the noise of a scan
LITTLE = 1e-4  # so do steps that lower the cost by less than this share; at 1e-3, errors in simulated drives grow by 3 %
# Factor of the kernel's scale from one iteration to the next. Shrinking it faster after short steps saves one iteration in nine,
# but errors over one scan grow by 1 % on MulRan and RoboSense E1R.
SHRINK = 0.5
SAME_MATCH = 5e-3  # meters; a point that moves less keeps its match, even between two target points that are equally near. By hand
FIT = 0.1  # meters; a point within this distance across a surface lies on it. By hand
# The residuals of neighboring matches are correlated. Compared with the true poses of simulated drives, this many matches count as
# one.
MATCHES_PER_INDEPENDENT = 8.0

# --- Degeneracy. What a prediction at constant velocity leaves open from one scan to the next: the root mean square per axis in
# real recordings was 0.1 degrees and 1 cm in a car, and 1.3 degrees and 1 cm in a hand, where one scan in twenty was off by 4
# degrees. A car that brakes hard is off by 10 cm. A direction that the surfaces determine less well than this is weak.
TURN, SHIFT = np.deg2rad(2.0), 0.1  # radians, meters
# The other three were set on simulated bare places, handheld and driven (tests/lidar_odometry/test_degeneracy.py).
NORMAL = 0.17  # sine of 10 degrees: a surface does not resist motions within this angle of it, because normals are not more exact
AGREEING = 0.9  # cosine of the two normals of a match; if they differ more, one is wrong and the match is not counted
# Of the weight of all matches: may lie on surfaces that do not exist, such as the rings on the walls of a tunnel. In a round tunnel
# the turn about its axis is reported in 1 of 7 scans with 0.005, in 5 with 0.01; with 0.014, the end of a corridor is overlooked.
WRONG = 0.01

# --- The local map.
MEMORY = 20.0  # the weight of an average is limited to that of this many newest observations. By hand
FORGET_EVERY = 0.1  # times the radius: distance the sensor moves between removals of far cells. Only for speed
CELL = 0.3  # meters: cells of the map are half a voxel, but not smaller than this unless voxels are. By hand
# Meters that the sensor moves before the map is indexed again. This lowers drift: the ring pattern on the ground moves with the
# sensor, and aligning only to older scans keeps a scan from locking onto the pattern of the last one. On which drives it was
# tuned is not recorded.
INDEX_EVERY = 2.0
INDEX_RANGES = 0.2  # times the median range: the same, where surfaces are near, for handheld sensors. By hand
SEEN = 0.95  # times the best fit of the last scans: below it, the scan sees surfaces that are not indexed yet. By hand

# --- The odometer.
# Points after downsampling, if the voxel size is chosen automatically. On real sequences of five sensors, 3,000 to 10,000 give the
# same drift; steps get worse below 4,000.
WANTED = 4500
VOXEL_STEP = 1.05  # largest change of the automatic voxel size from scan to scan. By hand
VOXELS = 0.05, 0.8  # meters: smallest and largest automatic voxel size. By hand
PCA_NEIGHBORS = 20  # as in small_gicp and GICP, for comparison
# When a scan is accepted, predicted or lost: by hand, on simulated drives with gaps, empty scans and garbage (test_odometry.py).
LEAST = 64  # minimum number of points to align a scan
GAP = 1.8  # times the usual period: a longer interval means missing scans
FITS, FITS_AT_LEAST = 0.5, 0.2  # times the usual fit, and at least: minimum to accept a scan
USUAL = 20  # last scans from which the usual values are computed
WIDER = 2.0  # meters: initial scale of the robust kernel in the wider search

# --- The map of the drive: returns per voxel over 60 scans of KITTI, nuScenes and RoboSense E1R (docs/odometry.md).
FINER = 4.0  # voxels of the odometry are this many times as large as those of the points
FINEST = 0.05  # meters: returns and poses are accurate to a few centimeters
