"""Numbers of registration that were tuned or set by hand, each with what it rests on. Options by sensor are in `presets`.

Tables are in docs/results. "By hand" means that no table compares other values.
"""

import numpy as np

# --- The search.
# For objects, relative to the target's radius (the largest distance of a point to the centroid). By hand; `presets` has the lengths
# of scans.
FEATURE_RADIUS = 0.3
NOISE_BOUND = 0.05
SCALES = np.array([1.0, 5 / 3, 10 / 3])  # times the feature radius: small ones distinguish places, large ones sides. By hand
ACROSS = 0.4  # times the noise bound: how far apart refined clouds may be across the surface. By hand
SAME_WAY = 0.8  # minimum cosine of the angle between normals of one surface. By hand
THICKNESS = 0.05  # variance across a surface, relative to 1 along it: sparse points on curved surfaces are not thin planes. By hand
SHARPEN = 1.4  # of graduated non-convexity, per round, as in its paper

# --- Scans.
# Degrees. Two scans of one place differ by the slope of the ground and the sway of the sensor: by at most 4 in six sequences from
# cars, 16 in simulated walks, and 27 in a sequence of a handheld sensor. Wrong poses that lay walls on the ground tip the vertical
# by about 90.
MAX_TILT = 45.0
STANDING = 0.5  # maximum |z| of the normal of an upright surface. By hand
LEAST = 16  # minimum number of points to search for a pose. By hand

# --- The verdict.
DIRECTIONS = 5.0  # degrees: size of a cell of directions, in which the nearest surface hides those behind it. By hand
IN_FRONT = 0.9  # of the range of the nearest surface, less the reach: points nearer than that were looked through. By hand
# The constant, then one coefficient per kind of `Evidence`, of a logistic regression on pairs of real and simulated scans, half of
# which show different places. `python -m benchmarks verdict` fits them, and evaluates them on other sequences and worlds
# (docs/results/verdict.md). True: upright scans; False: any rotation.
COEFFICIENTS = {True: (-0.2, 2.66, -33.58, 7.22, 9.41), False: (1.51, 0.0, -33.06, 9.54, 13.08)}

# --- Which preset two clouds need.
MOST_OF_AN_OBJECT = 20_000  # points. With more, the search takes minutes, and lengths relative to the radius are meaningless
LEAST_OF_A_SCAN = 2_000  # points. By hand
DENSE_SCAN = 45_000  # returns: above any sensor of 32 rings
INDOORS = 15.0  # meters: 95 % of the returns are nearer. In real sequences, they are within 8 m indoors and 33 to 62 m outdoors
SMALLEST = 1.5  # meters: nothing smaller is the surroundings of a sensor
# The range of the 99th percentile, relative to the median. Scans from cars have 4 to 7. Points on an object, seen from anywhere
# inside or near it, hardly reach 2.
SPREAD, CLEAR_SPREAD = 2.0, 3.0
