from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import StoreError
from pipeline.export.folder import replaced_folder


def fill(folder: Path, name: str) -> None:
    with replaced_folder(folder, marker="mark") as fresh:
        (fresh / "mark").write_text("")
        (fresh / name).write_text("x")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_made_and_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "dataset"
    fill(target, "one")
    assert names(target) == ["mark", "one"]
    fill(target, "two")
    assert names(target) == ["mark", "two"]
    assert names(target.parent) == ["dataset"]


def test_an_error_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "dataset"
    fill(target, "one")
    with pytest.raises(KeyError), replaced_folder(target, marker="mark") as fresh:
        (fresh / "two").write_text("x")
        raise KeyError
    assert names(target) == ["mark", "one"]
    assert names(tmp_path) == ["dataset"]


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    fill(tmp_path / "empty", "one")
    (tmp_path / "other").mkdir()
    fill(tmp_path / "other", "one")
    assert names(tmp_path / "other") == ["mark", "one"]


def test_foreign_folders_and_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday").write_text("")
    with pytest.raises(StoreError, match=r"photos holds something else \(no mark\)"):
        fill(tmp_path / "photos", "one")
    assert names(tmp_path / "photos") == ["holiday"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        fill(tmp_path / "file", "one")


def test_a_disk_that_refuses_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="dataset cannot be written: "):
        fill(tmp_path / "file" / "dataset", "one")
