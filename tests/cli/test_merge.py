from __future__ import annotations

from tests.models.transformers_tiny import write_model


def test_merge_refuses_in_one_sentence(cli, tmp_path, capsys):
    base = write_model(tmp_path / "base")
    capsys.readouterr()  # writing a model may show a bar
    assert cli("merge", base, tmp_path / "out") == 2
    assert cli.err == f"staract: {base} is no adapter (no adapter_config.json): there is nothing to merge\n"
    assert not (tmp_path / "out").exists()
