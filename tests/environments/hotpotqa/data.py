"""Three questions of our own in every form that HotpotQA comes in."""

import json

import pyarrow
import pyarrow.parquet

QUESTIONS = [
    {
        "_id": "aa1",
        "question": "In which country is the city where the Blue Clock & Co. stands?",
        "answer": "Norway",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Blue Clock &amp; Co.", 0], ["Tern City", 5]],
        "context": [
            ["Blue Clock &amp; Co.", ["Blue Clock & Co. is a shop.", " It stands in Tern City."]],
            [
                "Tern City",
                [
                    "Tern City is a port.",
                    " It is old.",
                    " It is cold.",
                    " It has a wall.",
                    " It has a church.",
                    " The city lies in Norway.",
                ],
            ],
            ["Oslo", ["Oslo is a city."]],
        ],
    },
    {
        "_id": "bb2",
        "question": "Are Tern City and Oslo both ports?",
        "answer": "yes",
        "type": "comparison",
        "level": "easy",
        "supporting_facts": [["Oslo", 0], ["Tern City", 0]],
        "context": [["Oslo", ["Oslo is a city."]], ["Empty", []]],
    },
    {
        "_id": "cc3",
        "question": "Who built\u2028 the wall?",
        "answer": "Rodri\u0301guez",
        "type": "bridge",
        "level": "medium",
        "supporting_facts": [["Atlantis", 0]],
        "context": [],
    },
]


def hub_row(row):
    """The row as the Hugging Face data set has it."""
    facts, context = row["supporting_facts"], row["context"]
    return {
        "id": row["_id"],
        **{key: row[key] for key in ("question", "answer", "type", "level")},
        "supporting_facts": {
            "title": [title for title, _ in facts],
            "sent_id": [place for _, place in facts],
        },
        "context": {"title": [title for title, _ in context], "sentences": [text for _, text in context]},
    }


def write(folder, form):
    """Write the questions in a form; returns the path."""
    path = folder / f"{form}.data"
    rows = QUESTIONS
    if form.startswith("hub"):
        rows = [hub_row(row) for row in rows]
    if form == "simplified":
        rows = [{key: row[key] for key in ("question", "answer", "type")} for row in rows]
    if form == "test":
        rows = [{key: row[key] for key in ("_id", "question", "context")} for row in rows]
    if form == "hub_parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form == "hub_jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows))
    return path
