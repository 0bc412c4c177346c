"""Convert ROS PointCloud2 messages to scans, with per-point times in seconds."""

from dataclasses import replace

from poli.data.datasets.point_times import TimeUnit, with_point_times
from poli.errors import FormatError, InputError
from poli.pointcloud2 import PointCloud2, columns_of_cloud, records_of_cloud, stamp_of_cloud
from poli.scan import Scan

__all__ = ["records_of_cloud", "scan_from_cloud", "scan_from_message"]


def scan_from_cloud(cloud: PointCloud2, where: str) -> Scan:
    """Convert a cloud with all points and fields, in native byte order; `where` names the message in errors."""
    return Scan.from_columns(columns_of_cloud(cloud, where), where)


def scan_from_message(
    cloud: PointCloud2, where: str = "the PointCloud2 message", stamp: int | None = None, time_unit: TimeUnit | None = None
) -> Scan:
    """Convert a cloud to a cleaned scan with per-point `time` in seconds from `stamp`, by default that of the header."""
    scan = replace(scan_from_cloud(cloud, where), stamp=stamp or stamp_of_cloud(cloud))
    try:
        return with_point_times(scan, time_unit, where).clean()
    except InputError as error:
        raise FormatError(f"{where}: {error}") from None
