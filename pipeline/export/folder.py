"""A folder that is replaced whole: a reader finds the old dataset or the new, never a mixture."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import StoreError


@contextmanager
def replaced_folder(folder: Path, marker: str) -> Generator[Path]:
    """Yield an empty sibling folder that becomes ``folder`` when the block ends without an error.

    Args:
        folder: what is made or replaced.
        marker: a file that only our own folders have; a folder with other content is not replaced.

    Raises:
        StoreError: ``folder`` is something else, or the disk is full or not writable.
    """
    folder = folder.absolute()
    _require_ours(folder, marker)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
            fresh, old = Path(scratch, "new"), Path(scratch, "old")
            fresh.mkdir()
            yield fresh
            # A folder cannot be renamed over another, so the old one steps aside first.
            if folder.exists():
                folder.rename(old)
            fresh.rename(folder)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written: {error.strerror or error}; free the disk or choose another"
        ) from None


def _require_ours(folder: Path, marker: str) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / marker).is_file():
        raise StoreError(
            f"{folder} holds something else (no {marker}): choose another folder or empty this one"
        )
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file: choose another folder for the dataset")
