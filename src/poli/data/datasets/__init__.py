"""Sequences of scans: public datasets, ROS bags, folders, and the poli format. `dataset` opens any of them by name."""

from poli.data.datasets.bags import BagDataset, open_bag
from poli.data.datasets.file_dataset import FileDataset
from poli.data.datasets.folder import open_folder
from poli.data.datasets.hdl64e import correct_elevation
from poli.data.datasets.helipr import open_helipr
from poli.data.datasets.kiss import KissDataset, open_kiss
from poli.data.datasets.kitti import open_kitti, write_kitti
from poli.data.datasets.kitti_raw import open_kitti_raw
from poli.data.datasets.mulran import open_mulran
from poli.data.datasets.poli_folder import FolderDataset, open_poli_folder, write_folder
from poli.data.datasets.protocol import Dataset, Skipped, SkippedWarning, occupied
from poli.data.datasets.registry import dataset, dataset_names, guess, register_dataset

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
    "occupied",
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
