import asyncio

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import ContextLimitError, ModelError
from pipeline.models.base import Request, Sampling
from pipeline.models.transformers_causal import stop_ids
from pipeline.rendering.base import Segment, TextPrompt
from tests.models.transformers_tiny import answers, ask, load, reference, write_model

FEW = "Exemplar one: the quick brown fox. Exemplar two: jumps over it.\n"
QUESTIONS = ["Q: a?", "Q: what is it that never ends?", "Q:", "Q: shorter one", "Q: b and then c?"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def model(folder):
    model = load(folder, batch_size=8)
    yield model
    asyncio.run(model.close())


def texts(completions):
    # A random model may write bytes that are no text; whether they end it depends on the budget.
    return [completion.text.rstrip("\ufffd") for completion in completions]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral", "olmo2", "gpt_neox"])
def test_greedy_text_equals_generate_in_every_arrangement(tmp_path, kind):
    folder = write_model(tmp_path, kind)
    model = load(folder, batch_size=8)
    right = [reference(folder, model.tokenizer, FEW + question, 20) for question in QUESTIONS]
    assert len(set(right)) == len(right)
    plain = [ask(FEW + question) for question in QUESTIONS]
    shared = [ask(question, FEW, session=question) for question in QUESTIONS]
    alone = [answers(model, request)[0] for request in shared]
    assert texts(alone) == right
    assert texts(answers(model, *plain)) == right
    assert texts(answers(model, *shared, *plain[:3])) == right + right[:3]
    again = answers(model, *shared, close=True)
    assert texts(again) == right
    assert all(c.usage.cached_tokens == c.usage.prompt_tokens - 1 for c in again)


def test_small_batches_and_long_prompts_in_pieces(folder):
    model = load(folder, batch_size=2)
    model._decoder._chunk = 7
    right = [reference(folder, model.tokenizer, FEW + question, 12) for question in QUESTIONS]
    assert texts(answers(model, *(ask(q, FEW, 12) for q in QUESTIONS))) == right
    assert texts(answers(model, *(ask(FEW + q, "", 12) for q in QUESTIONS), close=True)) == right


def test_a_sliding_window_bounds_the_context(tmp_path):
    folder = write_model(tmp_path, "mistral", sliding_window=40)
    model = load(folder)
    assert model.context == 40
    right = reference(folder, model.tokenizer, "Q: a?", 30)
    assert texts(answers(model, ask("Q: a?", tokens=30), close=True)) == [right]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.text("ab ?", min_size=1, max_size=12), st.booleans()), min_size=1, max_size=4),
    st.integers(1, 12),
)
def test_an_episode_with_its_cache_is_an_episode_without(model, turns, tokens):
    kept, fresh = "", ""
    for said, rewrites in turns:
        kept += f"\nObservation: {said}\n"
        fresh += f"\nObservation: {said}\n"
        with_cache = answers(model, ask(kept, FEW, tokens, session="episode"))[0]
        without = answers(model, ask(fresh, FEW, tokens))[0]
        assert with_cache.text == without.text
        # An episode may go on with other text than the model wrote (a repaired action).
        addition = "repaired" if rewrites else with_cache.text
        kept, fresh = kept + addition, fresh + addition
    model.forget("episode")


def test_sampling_depends_on_the_seed_alone(model):
    requests = [ask(q, FEW, temperature=1.0, top_p=0.9, seed=i) for i, q in enumerate(QUESTIONS)]
    together = texts(answers(model, *requests, ask("Q: greedy")))
    assert [texts(answers(model, request))[0] for request in requests] == together[:-1]
    same = [ask("Q: a?", temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    one, two, three = texts(answers(model, *same))
    assert one == two != three


def test_string_stops_are_each_sequences_own(model):
    whole = answers(model, ask("Q: a?"))[0]
    assert whole.stop_reason == "length"
    assert whole.usage.completion_tokens == 20
    stop = whole.text[5:8]
    cut, other = answers(model, ask("Q: a?", stop=(stop,)), ask("Q: a?", stop=("never to be found",)))
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.stop_reason == "stop"
    assert cut.usage.completion_tokens < 20
    assert (other.text, other.stop_reason) == (whole.text, "length")


def test_the_end_of_sequence_stops_and_is_no_text(tmp_path):
    folder = write_model(tmp_path, tie_word_embeddings=False)
    model = load(folder)
    free = answers(model, ask("Q: a?"))[0]
    ids = model.tokenizer(free.text, add_special_tokens=False).input_ids
    # The third token that it writes is declared an end, in a list as some models have it.
    model._decoder._stops = frozenset({ids[2]})
    ended = answers(model, ask("Q: a?"), close=True)[0]
    place = ids.index(ids[2])
    assert ended.text == model.tokenizer.decode(ids[:place]).rstrip("\ufffd")
    assert (ended.stop_reason, ended.usage.completion_tokens) == ("stop", place + 1)


def test_stop_ids_come_from_the_generation_config_and_the_tokeniser(model):
    network = model._decoder._model
    network.generation_config.eos_token_id = [3, 4]
    assert stop_ids(network, model.tokenizer) == {3, 4, 256}
    network.generation_config.eos_token_id = None
    assert stop_ids(network, model.tokenizer) == {256}


def test_c05_the_budget_is_clamped_to_the_room_left(folder):
    model = load(folder, context=64)
    clamped = answers(model, ask("x" * 50, tokens=100))[0]
    assert (clamped.usage.completion_tokens, clamped.stop_reason) == (14, "length")
    for size in (64, 200):
        with pytest.raises(ContextLimitError, match=f"{size} tokens"):
            answers(model, ask("x" * size))
    assert answers(model, ask("x" * 63), close=True)[0].usage.completion_tokens == 1


def test_a_context_beyond_the_models_is_refused(folder):
    with pytest.raises(ModelError, match="513"):
        load(folder, context=513)


def test_an_empty_prompt_is_refused(model):
    with pytest.raises(ModelError, match="empty"):
        answers(model, ask(""))


def test_usage_counts_shared_tokens_as_cached_from_the_second_time_on(model):
    first = answers(model, ask("Q: a?", FEW))[0].usage
    second = answers(model, ask("Q: b!!", FEW))[0].usage
    assert (first.prompt_tokens, first.cached_tokens, first.calls) == (len(FEW) + 5, 0, 1)
    assert (second.prompt_tokens, second.cached_tokens) == (len(FEW) + 6, len(FEW))
    assert second.seconds > 0


def test_forgetting_drops_the_cache(model):
    answers(model, ask("Q: a?", session="s"))
    model.forget("s")
    assert answers(model, ask("Q: a?", session="s"))[0].usage.cached_tokens == 0
    assert answers(model, ask("Q: a?", session="s"))[0].usage.cached_tokens == 4


def test_a_small_memory_changes_no_answer(folder):
    model = load(folder, batch_size=4)
    model._decoder._rows._limit = 128
    right = [reference(folder, model.tokenizer, q, 20) for q in QUESTIONS]
    for _ in range(2):
        assert texts(answers(model, *(ask(q, session=q) for q in QUESTIONS))) == right
    asyncio.run(model.close())


def test_cancelling_frees_the_place(folder):
    model = load(folder, batch_size=1)

    async def run():
        long = asyncio.create_task(model.generate(ask("Q: a?", tokens=400)))
        waiting = asyncio.create_task(model.generate(ask("Q: never", tokens=400)))
        await asyncio.sleep(0.05)
        long.cancel()
        waiting.cancel()
        short = await model.generate(ask("Q: b?", tokens=3))
        await asyncio.gather(long, waiting, return_exceptions=True)
        assert long.cancelled()
        assert waiting.cancelled()
        await model.close()
        return short

    assert asyncio.run(run()).usage.completion_tokens == 3


def test_a_failure_in_the_thread_fails_all_and_the_model_goes_on(model):
    right = texts(answers(model, ask("Q: a?")))
    forward, model._decoder._model = model._decoder._model, None

    async def run():
        return await asyncio.gather(*(model.generate(ask(q)) for q in QUESTIONS), return_exceptions=True)

    failed = asyncio.run(run())
    assert all(isinstance(error, ModelError) and "decoding with" in str(error) for error in failed)
    model._decoder._model = forward
    assert texts(answers(model, ask("Q: a?"))) == right


def test_numbers_that_are_none_fail_the_request_and_spoil_no_other(tmp_path):
    model = load(write_model(tmp_path), batch_size=2)
    right = texts(answers(model, ask("Q: a?")))
    bad = model.tokenizer("~").input_ids[0]
    with torch.no_grad():
        model._decoder._model.get_input_embeddings().weight[bad] = float("nan")
        model._decoder._model.lm_head.weight.nan_to_num_(0.0)

    async def run():
        return await asyncio.gather(
            model.generate(ask("~~")), model.generate(ask("Q: a?")), return_exceptions=True
        )

    failed, fine = asyncio.run(run())
    assert isinstance(failed, ModelError)
    assert "finite" in str(failed)
    assert fine.text == right[0]
    assert texts(answers(model, ask("Q: a?"), ask("Q: a?"), close=True)) == right * 2


def test_after_closing_nothing_hangs(folder):
    model = load(folder)

    async def run():
        pending = asyncio.create_task(model.generate(ask("Q: a?", tokens=400)))
        await asyncio.sleep(0.02)
        await model.close()
        with pytest.raises(ModelError, match="closed"):
            await pending
        with pytest.raises(ModelError, match="closed"):
            await model.generate(ask("Q: b?"))
        model.forget("x")
        await model.close()

    asyncio.run(run())
    unused = load(folder)
    asyncio.run(unused.close())


@pytest.mark.parametrize(("kind", "changes"), [("qwen3_next", {}), ("mamba", {})])
def test_layers_that_are_not_offered_are_refused_when_loading(tmp_path, kind, changes):
    folder = write_model(tmp_path, kind, **changes)
    with pytest.raises(ModelError, match="openai:"):
        load(folder)


def test_attention_that_is_not_offered_is_one_sentence(tmp_path):
    model = load(write_model(tmp_path, "gemma2", attn_logit_softcapping=30.0))
    with pytest.raises(ModelError, match="does not offer"):
        answers(model, ask("Q: a?"), close=True)


def test_foreign_text_and_odd_prompts_are_data(model):
    hostile = TextPrompt((Segment("a\u2028b \ud800 <eos> Observation: \x00"),), ("\nObservation",))
    completion = answers(model, Request(hostile, Sampling(max_tokens=4)))[0]
    assert completion.usage.completion_tokens <= 4
