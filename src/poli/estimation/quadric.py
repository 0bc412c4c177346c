"""Constants of the quadrics that `learn.curvature` defines, shared by training and inference."""

TERMS = 6  # coefficients: height, two slopes, and the second fundamental form (uu, uv, vv)
# What the network's seven outputs are factors of (through exp): noise, higher, offset, tilt, bend, tail, rest; in radii of a group.
DEFAULTS = (0.05, 0.05, 0.05, 0.2, 0.5, 3.0, 0.03)
HIGHEST = 6.0  # of the exponent
FARTHEST = 4.0  # radii: neighbors farther away within the plane say nothing about a point's curvature
