"""Five claims of our own in both forms that FEVER comes in."""

import json

import pyarrow
import pyarrow.parquet

PAGES = {
    "Soul Food (film)": "Soul Food is a film. It was made in Norway.",
    "Tern City": (
        "Tern City is a port. It is old. It is cold. It has a wall. It has a church. A river runs there."
    ),
    "Oslo": "Oslo is a city. It is large.",
}

CLAIMS = [
    {
        "id": 1,
        "verifiable": "VERIFIABLE",
        "label": "SUPPORTS",
        "claim": "Soul Food was made in Norway.",
        "evidence": [
            [[10, 20, "Atlantis", 0]],
            [[11, 21, "Soul_Food_-LRB-film-RRB-", 1]],
            [[12, 22, "Soul_Food_-LRB-film-RRB-", 1]],
        ],
    },
    {
        "id": 2,
        "verifiable": "VERIFIABLE",
        "label": "REFUTES",
        "claim": "A river runs from Tern City to Oslo.",
        "evidence": [[[13, 23, "Tern_City", 5], [13, 23, "Oslo", 0]]],
    },
    {
        "id": 3,
        "verifiable": "NOT VERIFIABLE",
        "label": "NOT ENOUGH INFO",
        "claim": "The queen of Oslo is a vegan.",
        "evidence": [[[14, None, None, None]]],
    },
    {
        "id": 4,
        "verifiable": "VERIFIABLE",
        "label": "SUPPORTS",
        "claim": "Atlantis is an island.",
        "evidence": [[[15, 25, "Atlantis", 0]]],
    },
    {
        "id": 5,
        "verifiable": "VERIFIABLE",
        "label": "REFUTES",
        "claim": "Atlantis is an  ISLAND",
        "evidence": [[[15, 25, "Atlantis", 0]]],
    },
]


def hub_rows():
    """One row an evidence sentence, as the Hugging Face data set has them; a claim's rows lie apart."""
    rows = []
    for claim in CLAIMS:
        for group in claim["evidence"]:
            for annotation, evidence, title, sentence in group:
                rows.append(
                    {
                        "id": claim["id"],
                        "label": claim["label"],
                        "claim": claim["claim"],
                        "evidence_annotation_id": annotation,
                        "evidence_id": -1 if evidence is None else evidence,
                        "evidence_wiki_url": title or "",
                        "evidence_sentence_id": -1 if sentence is None else sentence,
                    }
                )
    return [*rows[:1], *rows[3:4], *rows[1:3], *rows[4:]]


def write(folder, form):
    """Write the claims in a form; returns the path."""
    path = folder / f"{form}.data"
    rows = CLAIMS if form in ("official", "test") else hub_rows()
    if form == "test":
        rows = [{key: row[key] for key in ("id", "claim")} for row in rows]
    if form == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
