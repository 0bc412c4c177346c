"""The real sequences on which systems are compared, all prepared alike: KITTI's with point times and corrected elevations."""

from __future__ import annotations

from benchmarks.data.drives import RealSequence

_KITTI = ("kitti_raw_0005", "kitti_raw_0009", "kitti_raw_0013")

SYSTEM_SEQUENCES = (
    *(RealSequence(name, "hdl64e", 10.0, (0.5,), beams, raw_kitti=True) for name in _KITTI for beams in (16, 32, None)),
    RealSequence("nuscenes_0001", "hdl32e", 20.0, (0.5,), nearest=2.5),
    RealSequence("nuscenes_0006", "hdl32e", 20.0, (0.5,), nearest=2.5),
    RealSequence("mulran_kaist03", "os1_64", 10.0, (0.5,)),
    RealSequence("robosense_e1r", "e1r", 10.0, (0.2,)),
)
