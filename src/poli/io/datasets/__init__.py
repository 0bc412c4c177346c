"""Sequences of scans: public datasets, ROS bags, folders, and the poli format. `dataset` opens any of them by name."""

from poli.io.datasets.bags import BagDataset, open_bag
from poli.io.datasets.files import Dataset, FileDataset, Skipped, SkippedWarning, open_folder
from poli.io.datasets.hdl64e import correct_elevation
from poli.io.datasets.kiss import KissDataset, open_kiss
from poli.io.datasets.kitti import open_kitti, write_kitti
from poli.io.datasets.kitti_raw import open_kitti_raw
from poli.io.datasets.poli_folder import FolderDataset, open_poli_folder, write_folder
from poli.io.datasets.registry import dataset, dataset_names, guess, register_dataset
from poli.io.datasets.stamped import open_helipr, open_mulran

__all__ = [
    "BagDataset",
    "Dataset",
    "FileDataset",
    "FolderDataset",
    "KissDataset",
    "Skipped",
    "SkippedWarning",
    "correct_elevation",
    "dataset",
    "dataset_names",
    "guess",
    "open_bag",
    "open_folder",
    "open_helipr",
    "open_kiss",
    "open_kitti",
    "open_kitti_raw",
    "open_mulran",
    "open_poli_folder",
    "register_dataset",
    "write_folder",
    "write_kitti",
]
