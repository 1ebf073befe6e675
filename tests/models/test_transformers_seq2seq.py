import asyncio
import json
import random
import threading

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSeq2SeqLM

from pipeline.errors import ContextLimitError, ModelError
from pipeline.methods.swiftsage.matching import clean_beam
from pipeline.models.base import Request, Sampling, beams
from pipeline.models.folders import is_encoder_decoder
from pipeline.models.registry import load_model
from pipeline.models.transformers_causal import TransformersCausal
from pipeline.models.transformers_load import load_causal, load_seq2seq
from pipeline.models.transformers_sampling import choose
from pipeline.models.transformers_seq2seq import TransformersSeq2Seq
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import ChatPrompt, Message, Segment, TextPrompt
from pipeline.rendering.swift_fit import fit
from tests.models.transformers_seq2seq_tiny import (
    answers,
    ask,
    load,
    network,
    reference,
    searched,
    swift_text,
    write_t5,
)
from tests.models.transformers_tiny import write_model

INPUTS = [
    swift_text(1),
    swift_text(3, "This room is called the workshop. In it, you see: a table, a glass cup", "freeze water"),
    swift_text(9, "x " * 20, "melt"),
    swift_text(2, "hallway", "find an apple"),
    swift_text(0, "", "use stove"),
    "open door",
]


ASKED = st.tuples(st.sampled_from(INPUTS), st.sampled_from([1, 3]), st.sampled_from([4, 9]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_t5(tmp_path_factory.mktemp("tiny") / "t5")


@pytest.fixture
def model(folder):
    model = load(folder)
    yield model
    asyncio.run(model.close())


def texts(found):
    return [[completion.text for completion in group] for group in found]


def widths(model):
    """What the encoder is given from now on: (inputs, ids) a pass."""
    passes = []
    model._search._model.encoder.register_forward_hook(
        lambda module, args, kwargs, output: passes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return passes


@pytest.mark.parametrize("count", [1, 2, 5])
def test_beams_equal_the_librarys_own_search_alone_and_together(folder, model, count):
    right = [reference(folder, model.tokenizer, text, count, 12) for text in INPUTS]
    assert len({tuple(found) for found in right}) == len(right)
    requests = [ask(text) for text in INPUTS]
    assert texts(searched(model, count, *requests)) == right
    assert texts(searched(model, count, request)[0] for request in requests) == right


def test_greedy_answers_equal_the_librarys_own(folder, model):
    right = [reference(folder, model.tokenizer, text, 1, 20)[0] for text in INPUTS]
    found = answers(model, *(ask(text, 20) for text in INPUTS))
    assert [completion.text for completion in found] == right
    assert {completion.stop_reason for completion in found} == {"stop", "length"}


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ASKED, min_size=2, max_size=6))
def test_an_answer_does_not_depend_on_what_else_is_asked(model, wanted):
    async def ask_all():
        asked = (model.beams(ask(text, tokens), count) for text, count, tokens in wanted)
        return texts(await asyncio.gather(*asked))

    alone = [texts(searched(model, count, ask(text, tokens)))[0] for text, count, tokens in wanted]
    assert asyncio.run(ask_all()) == alone


def test_the_encoder_reads_all_that_wait_once(folder):
    model = load(folder)
    passes = widths(model)
    searched(model, 5, *(ask(text) for text in INPUTS))
    longest = max(len(model.tokenizer(text.rstrip()).input_ids) for text in INPUTS)
    assert [rows for rows, _ in passes] == [len(INPUTS)]
    assert longest <= passes[0][1] <= longest + 1
    asyncio.run(model.close())


def test_the_batch_size_bounds_the_inputs_of_a_pass_and_order_is_kept(folder):
    model = load(folder, batch_size=4)
    passes = widths(model)
    right = [reference(folder, model.tokenizer, text, 2, 6) for text in INPUTS]
    assert texts(searched(model, 2, *(ask(text, 6) for text in INPUTS))) == right
    assert [rows for rows, _ in passes] == [4, 2]
    asyncio.run(model.close())


def test_ids_are_those_of_training_control_tokens_included(model):
    text = swift_text(2)
    ids = model._encode(ask(text))
    vocabulary = model.tokenizer.get_vocab()
    assert ids[-1] == vocabulary["</s>"]
    assert ids.count(vocabulary["</s>"]) == text.count("</s>")
    assert [ids.count(vocabulary[f"<extra_id_{number}>"]) for number in (8, 9, 10)] == [0, 1, 1]
    parts = TextPrompt((Segment(text[:30]), Segment(text[30:40]), Segment(text[40:])))
    assert model._encode(Request(parts)) == ids
    assert model._encode(ask("open door"))[-1] == vocabulary["</s>"]
    assert model._encode(ask("open door")).count(vocabulary["</s>"]) == 1


def test_an_input_too_long_loses_its_oldest_history(folder):
    model = load(folder, context=160)
    text = swift_text(9)
    short = fit(
        text, lambda part: len(model.tokenizer(part.rstrip(), add_special_tokens=False).input_ids), 160
    )
    assert 0 < short.entries < 9
    assert short.text.endswith("What action should you do next? </s> ")
    right = reference(folder, model.tokenizer, short.text, 3, 8)
    assert texts(searched(model, 3, ask(text, 8))) == [right]
    assert searched(model, 3, ask(text, 8))[0][0].usage.prompt_tokens <= 160
    with pytest.raises(ContextLimitError, match="task and the question"):
        answers(model, ask(swift_text(task="boil water " * 60)))
    with pytest.raises(ContextLimitError, match="SWIFT"):
        answers(model, ask("open door " * 60))
    asyncio.run(model.close())


def test_the_default_context_is_1024(folder):
    model = load(folder)
    assert model.context == 1024
    assert len(model._encode(ask("open door " * 150))) <= 1024
    with pytest.raises(ContextLimitError, match="1024"):
        model._encode(ask("xq " * 1024))


def test_the_first_beam_bears_the_usage_of_the_search(model):
    found = searched(model, 5, ask(INPUTS[0]))[0]
    usage = found[0].usage
    assert (usage.calls, usage.prompt_tokens) == (1, len(model._encode(ask(INPUTS[0]))))
    assert 5 * 1 <= usage.completion_tokens <= 5 * 12
    assert usage.seconds > 0
    assert all(completion.usage.calls == completion.usage.completion_tokens == 0 for completion in found[1:])


def test_an_answer_cut_by_its_budget_says_so(model):
    for text in INPUTS:
        whole = answers(model, ask(text, 12))[0]
        assert whole.stop_reason == "stop" or whole.usage.completion_tokens == 12
        budget = whole.usage.completion_tokens - 1
        cut = answers(model, ask(text, budget))[0]
        assert (cut.stop_reason, cut.usage.completion_tokens) == ("length", budget)
        assert whole.text.startswith(cut.text)


def test_the_function_beams_asks_the_model(model):
    found = asyncio.run(beams(model, ask(INPUTS[0]), 3))
    assert texts([found]) == texts(searched(model, 3, ask(INPUTS[0])))


def test_string_stops_cut_the_text(model):
    whole = answers(model, ask(INPUTS[0]))[0]
    stop = whole.text[4:6]
    cut, other = answers(model, ask(INPUTS[0], stop=("never found", stop)), ask(INPUTS[0], stop=("", "no")))
    assert (cut.text, cut.stop_reason) == (whole.text[: whole.text.index(stop)], "stop")
    assert other.text == whole.text


def drawn(folder, tokenizer, text, seed, tokens=10):
    """One token after the other, without the library's ``generate``."""
    ids = tokenizer(text.rstrip(), return_tensors="pt", add_special_tokens=False).input_ids
    written, die = [0], random.Random(seed)
    with torch.inference_mode():
        while len(written) <= tokens and written[-1] != tokenizer.eos_token_id:
            logits = network(folder)(input_ids=ids, decoder_input_ids=torch.tensor([written])).logits[:, -1]
            written += choose(logits, [Sampling(temperature=1.0, top_p=0.9)], [die])
    return tokenizer.decode(written, skip_special_tokens=True)


def test_sampling_depends_on_the_seed_alone(folder, model):
    wanted = [(text, seed) for text in INPUTS[:3] for seed in (1, 2)]
    requests = [ask(text, 10, temperature=1.0, top_p=0.9, seed=seed) for text, seed in wanted]
    together = answers(model, *requests, ask(INPUTS[3], 10))
    right = [drawn(folder, model.tokenizer, text, seed) for text, seed in wanted]
    assert len(set(right)) > 3
    assert [completion.text for completion in together[:-1]] == right
    assert [answers(model, request)[0].text for request in requests] == right
    assert together[-1].text == answers(model, ask(INPUTS[3], 10))[0].text


def test_a_search_has_no_use_for_a_temperature(model):
    warm = ask(INPUTS[0], temperature=2.0, seed=3)
    assert texts(searched(model, 4, warm)) == texts(searched(model, 4, ask(INPUTS[0])))


def test_what_the_folder_says_about_generating_is_not_heeded(tmp_path):
    folder = write_t5(tmp_path / "t5")
    right = texts(searched(load(folder), 2, *(ask(text) for text in INPUTS)))
    path = folder / "generation_config.json"
    odd = {"num_beams": 7, "do_sample": True, "top_k": 2, "no_repeat_ngram_size": 1, "max_length": 3}
    path.write_text(json.dumps({**json.loads(path.read_text()), **odd}))
    assert texts(searched(load(folder), 2, *(ask(text) for text in INPUTS))) == right


def test_a_conversation_is_refused(model):
    with pytest.raises(ModelError, match="encoder-decoder") as caught:
        answers(model, Request(ChatPrompt((Message("user", "Go."),))))
    assert "\n" not in str(caught.value)


def test_foreign_text_is_data(model):
    found = answers(model, ask("a\u2028b \ud800 \x00 <extra_id_1> Observation:", 4), ask("\udc00", 4))
    assert all("<" not in clean_beam(completion.text) for completion in found)
    for empty in ("", " \n", "</s>"):
        with pytest.raises(ModelError, match="empty"):
            answers(model, ask(empty))


def test_cancelling_frees_the_thread(folder):
    model = load(folder, batch_size=1)

    async def run():
        long = asyncio.create_task(model.beams(ask(INPUTS[0], 5000), 5))
        waiting = asyncio.create_task(model.generate(ask(INPUTS[4], 5000)))
        await asyncio.sleep(0.1)
        long.cancel()
        waiting.cancel()
        short = await asyncio.wait_for(model.generate(ask(INPUTS[0], 3)), 20)
        await asyncio.gather(long, waiting, return_exceptions=True)
        assert long.cancelled()
        assert waiting.cancelled()
        await model.close()
        return short

    assert asyncio.run(run()).usage.completion_tokens == 3


def test_a_failure_fails_its_batch_and_the_model_goes_on(model):
    right = texts(searched(model, 2, ask(INPUTS[0])))
    whole, model._search._model = model._search._model, None

    async def run():
        return await asyncio.gather(*(model.beams(ask(text), 2) for text in INPUTS), return_exceptions=True)

    failed = asyncio.run(run())
    assert all(isinstance(error, ModelError) and "searching with" in str(error) for error in failed)
    model._search._model = whole
    assert texts(searched(model, 2, ask(INPUTS[0]))) == right


@pytest.mark.parametrize("count", [1, 3])
def test_numbers_that_are_none_fail_the_request_and_spoil_no_other(tmp_path, count):
    model = load(write_t5(tmp_path / "t5"))
    whole = model._search._model
    bad = model.tokenizer.convert_tokens_to_ids("<extra_id_77>")
    right = texts(searched(model, count, ask(INPUTS[0])))
    table = whole.shared.weight.detach().clone()
    table[bad] = float("nan")
    whole.encoder.embed_tokens = torch.nn.Embedding.from_pretrained(table)

    async def run():
        asked = (model.beams(ask(text), count) for text in ("door <extra_id_77>", INPUTS[0]))
        return await asyncio.gather(*asked, return_exceptions=True)

    failed, fine = asyncio.run(run())
    assert isinstance(failed, ModelError)
    assert "finite" in str(failed)
    assert texts([fine]) == right
    asyncio.run(model.close())


def test_after_closing_nothing_hangs(folder):
    model = load(folder, batch_size=1)

    async def run():
        pending = [asyncio.create_task(model.beams(ask(text, 5000), 5)) for text in INPUTS]
        await asyncio.sleep(0.1)
        await asyncio.wait_for(model.close(), 20)
        for task in pending:
            with pytest.raises(ModelError, match="closed"):
                await task
        with pytest.raises(ModelError, match="closed"):
            await model.generate(ask("open door"))
        model.forget("x")
        await model.close()

    before = threading.active_count()
    asyncio.run(run())
    assert threading.active_count() <= before
    asyncio.run(load(folder).close())


def test_the_registry_knows_an_encoder_decoder_by_its_config(folder, tmp_path):
    causal = write_model(tmp_path / "causal")
    assert is_encoder_decoder(str(folder))
    assert not is_encoder_decoder(str(causal))
    assert isinstance(load_model(ModelRecipe(address=str(folder), device="cpu")), TransformersSeq2Seq)
    assert isinstance(load_model(ModelRecipe(address=str(causal), device="cpu")), TransformersCausal)
    (causal / "config.json").write_text("[1]")
    with pytest.raises(ModelError, match="config"):
        is_encoder_decoder(str(causal))


def test_the_wrong_kind_of_model_is_one_sentence(folder, tmp_path):
    causal = write_model(tmp_path / "causal")
    for loading, address in ((load_seq2seq, causal), (load_causal, folder)):
        with pytest.raises(ModelError, match="cannot be loaded") as caught:
            loading(str(address), torch.float32, "cpu")
        assert "\n" not in str(caught.value)


def test_an_adapter_is_merged(folder, tmp_path):
    base = AutoModelForSeq2SeqLM.from_pretrained(folder)
    torch.manual_seed(1)
    lora = LoraConfig(r=4, target_modules=["q", "v"], init_lora_weights=False, task_type="SEQ_2_SEQ_LM")
    adapted = get_peft_model(base, lora)
    adapted.save_pretrained(tmp_path / "adapter")
    assert is_encoder_decoder(str(tmp_path / "adapter"))
    model, tokenizer = load_seq2seq(str(tmp_path / "adapter"), torch.float32, "cpu")
    ids = tokenizer("open door </s>", return_tensors="pt", add_special_tokens=False).input_ids
    start = torch.tensor([[0, 9]])
    with torch.inference_mode():
        right = adapted.eval()(input_ids=ids, decoder_input_ids=start).logits
        torch.testing.assert_close(
            model(input_ids=ids, decoder_input_ids=start).logits, right, rtol=1e-4, atol=1e-3
        )


def test_a_stamp_of_another_tokeniser_is_refused(tmp_path):
    folder = write_t5(tmp_path / "t5")
    (folder / "staract.json").write_text(json.dumps({"tokenizer_hash": "other"}))
    with pytest.raises(ModelError, match="another tokenizer"):
        load(folder)


def test_a_model_that_names_no_first_token_is_refused(tmp_path):
    folder = write_t5(tmp_path / "t5", decoder_start_token_id=None)
    with pytest.raises(ModelError, match="decoder_start_token_id"):
        load(folder)


def test_pickled_weights_are_never_read(tmp_path):
    folder = write_t5(tmp_path / "t5")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(folder)
