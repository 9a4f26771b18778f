"""The images of the experiment: Fashion-MNIST where the system has it, else scikit-learn's digits."""

from __future__ import annotations

import gzip
import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.inputs import check_names
from calibrant.errors import FileError, input_error

FILES = {
    "x_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}
HOW_TO_GET = (
    "Fashion-MNIST was not found. Hint: apt-get install dataset-fashion-mnist (Debian, Ubuntu), or put the four "
    "idx .gz files into a folder and pass it with --data FOLDER"
)


@dataclass(frozen=True)
class Images:
    """28 × 28 images in [0, 1] with labels: training, calibration, test, and out-of-distribution rows."""

    name: str
    foreign_name: str
    x_train: Floats
    y_train: Ints
    x_cal: Floats
    y_cal: Ints
    x_test: Floats
    y_test: Ints
    foreign: Floats
    note: str

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.y_train.max()) + 1


def system_folders(name: str) -> list[Path]:
    """Folders in which a system keeps a data set of this name (the XDG data folders)."""
    roots = os.environ.get("XDG_DATA_DIRS", "").split(os.pathsep) if os.environ.get("XDG_DATA_DIRS") else []
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return [Path(root) / "datasets" / name for root in [*roots, home, "/usr/local/share", "/usr/share"] if root]


def read_idx(path: Path) -> Array:
    """Read one gzipped idx file of unsigned bytes; anything else is refused."""
    try:
        raw = gzip.decompress(path.read_bytes())
        zero, kind, axes = struct.unpack(">HBB", raw[:4])
        shape = struct.unpack(f">{axes}I", raw[4 : 4 + 4 * axes])
        values = np.frombuffer(raw, np.uint8, offset=4 + 4 * axes)
    except (OSError, EOFError, struct.error) as error:
        raise FileError(f"{path} is not a readable idx file ({error}). Hint: fetch it again.") from error
    if zero != 0 or kind != 8 or values.size != int(np.prod(shape)):
        raise FileError(f"{path} is not an idx file of bytes. Hint: fetch it again.")
    return values.reshape(shape)


def find_idx(name: str, folder: Path | None = None) -> Path | None:
    """Return the folder that holds the four files of a data set, or None."""
    for place in [folder] if folder else system_folders(name):
        if all((place / file).is_file() for file in FILES.values()):
            return place
    return None


def load_images(data: str = "auto", rows: int | None = None, n_cal: int = 5000, n_test: int | None = None) -> Images:
    """Load and split the images: "auto", "fashion-mnist", "digits", or a folder with the four idx files.

    `rows` limits the training rows, `n_test` the test rows; the calibration rows are taken from the training
    part, always by the same permutation. "fashion-mnist-14" averages two by two pixels: a quarter of the work.
    "cifar10-outputs" and "cifar100-outputs" are no images: see `outputs`. "=FOLDER" behind a name says where files are.
    """
    name, _, place = data.partition("=")
    if name.endswith("-outputs"):
        from calibrant_papers.training.outputs import OUTPUTS, load_outputs

        check_names(name, tuple(OUTPUTS), "data", "train")
        return load_outputs(name, rows, place)
    if name == "fashion-mnist-14":
        return _halved(load_images(data.replace("-14", "", 1), rows, n_cal, n_test))
    if name == "fashion-mnist" and place:
        data = place
    if data != "digits":
        known = data in ("auto", "fashion-mnist")
        folder = find_idx("fashion-mnist") if known else find_idx("", Path(data))
        if folder is not None:
            return _fashion(folder, rows, n_cal, n_test)
        if data == "fashion-mnist":
            raise FileError(HOW_TO_GET + ".")
        if not known:
            raise input_error("data", "train", "be a folder with " + ", ".join(FILES.values()), data, "or use digits")
    return _digits(rows, data == "auto")


def _halved(images: Images) -> Images:
    """Average two by two pixels; zero mean and unit variance over the training rows."""
    small = {
        key: getattr(images, key).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
        for key in ("x_train", "x_cal", "x_test", "foreign")
    }
    center, spread = small["x_train"].mean(), small["x_train"].std()
    scaled = {key: ((x - center) / spread).astype(np.float32) for key, x in small.items()}
    return replace(images, name=f"{images.name}, 14 × 14 pixels", **scaled)


def _scale(images: Array) -> Array:
    return images.astype(np.float32) / 255.0


def _fashion(folder: Path, rows: int | None, n_cal: int, n_test: int | None) -> Images:
    raw = {key: read_idx(folder / file) for key, file in FILES.items()}
    order = np.random.default_rng(0).permutation(len(raw["y_train"]))
    n_cal = min(n_cal, len(order) // 4)
    cal, train = order[:n_cal], order[n_cal:][:rows]
    mnist = find_idx("mnist")
    foreign, name = _enlarged_digits(), "scikit-learn digits, enlarged"
    if mnist is not None:
        foreign, name = _scale(read_idx(mnist / FILES["x_test"])[:2000]), "MNIST digits"
    return Images(
        "Fashion-MNIST",
        name,
        _scale(raw["x_train"][train]),
        raw["y_train"][train].astype(np.int64),
        _scale(raw["x_train"][cal]),
        raw["y_train"][cal].astype(np.int64),
        _scale(raw["x_test"][:n_test]),
        raw["y_test"][:n_test].astype(np.int64),
        foreign,
        "",
    )


def _enlarged_digits() -> Floats:
    from sklearn.datasets import load_digits

    return _enlarge(load_digits().images)


def _enlarge(images: Array) -> Floats:
    """8 × 8 with values 0 … 16 → 28 × 28: each pixel three by three, a border of two."""
    large = np.repeat(np.repeat(images.astype(np.float32) / 16, 3, axis=1), 3, axis=2)
    return np.pad(large, ((0, 0), (2, 2), (2, 2)))


def _digits(rows: int | None, fallback: bool) -> Images:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = _enlarge(digits.images), digits.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(y))
    test, cal, train = order[:600], order[600:900], order[900:][:rows]
    shuffled = x[test].reshape(len(test), -1)[:, np.random.default_rng(1).permutation(28 * 28)].reshape(-1, 28, 28)
    return Images(
        "scikit-learn digits",
        "the same pixels in another order",
        x[train],
        y[train],
        x[cal],
        y[cal],
        x[test],
        y[test],
        shuffled,
        HOW_TO_GET + "; the digits of scikit-learn are used instead." if fallback else "",
    )
