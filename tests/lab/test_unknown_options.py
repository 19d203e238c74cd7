"""An option that a function doesn't know is refused in one line, which names what was meant."""

import importlib
import inspect
import re
from typing import Any

import lablib
from lablib.__main__ import main
from lablib.unknown_options import checks_options

import mlx.core as mx
import pytest
from oracles.fresh import run

INFERENCE = importlib.import_module("lablib.inference")
PUBLIC = {name: getattr(INFERENCE, name) for name in INFERENCE.__all__}
PUBLIC |= {name: getattr(lablib, name) for name in lablib.__all__}
# What one gets and does not make; what takes nothing; what the lessons' readers call.
RESULTS = {"AdaptiveVotes", "Candidate", "Completion", "SampleResult", "Samples", "Token", "Votes"}
RESULTS |= {"Particles"}
TAKES_NOTHING = {"Drafter", "by_definition", "doctor", "same_bits", "set_threads"}
READERS = {"check", "hint", "progress", "solution", "bias"}
MODULES = {"menu", "rules", "transforms"}
ENTRIES = sorted({*PUBLIC} - RESULTS - TAKES_NOTHING - READERS - MODULES)


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """A right value for each argument that must be given."""
    model, tokenizer = lablib.load("draft")
    return {
        "model": model, "target": model, "draft_model": model, "lm": model, "n": 1,
        "tokenizer": tokenizer, "prompt": [1], "prompts": [[1]],
        "options": [lablib.SamplerOptions()], "vocab_size": 8, "d_model": 8,
        "n_heads": 1, "n_layers": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", ENTRIES)
def test_every_public_function_and_class_refuses_one(name: str, given: dict[str, Any]) -> None:
    entry = PUBLIC[name]
    parameters = inspect.signature(entry).parameters.values()
    named = [each for each in parameters if each.kind is not each.VAR_KEYWORD]
    needed = {each.name for each in named if each.default is each.empty} & given.keys()
    arguments = {each: given[each] for each in needed}
    if name in ("forecast", "generate"):  # they need one of several
        arguments["tokenizer"] = given["tokenizer"]
        arguments["prompts" if name == "forecast" else "prompt"] = ["Mia"]
    own = f"^unknown option 'nonsense'; {entry.__name__} knows "
    with pytest.raises(TypeError, match=own) as caught:
        entry(**arguments, nonsense=1)
    assert "\n" not in str(caught.value)
    assert caught.value._render_traceback_() == [f"TypeError: {caught.value}"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: lablib.load("target", dtyp=mx.float16), "(did you mean dtype?); load knows name"),
        (lambda: lablib.load("target", adapter="a"), "(did you mean adapter_path?)"),
        (lambda: lablib.load("target", torch_dtype=mx.float16), "(here it is dtype=, such as"),
        (lambda: lablib.load(path_or_hf_repo="target"), "(here it is name=)"),
        (lambda: lablib.load_head("target-head", modle=3), "; load_head knows name, target"),
        (lambda: lablib.load_head("target-head", traget=3), "(did you mean target?)"),
        (lambda: lablib.AsyncMlxLM(None, None, bach_size=2), "(did you mean batch_size?)"),
        (lambda: lablib.AsyncMlxLM.from_name("draft", batchsize=2), "(did you mean batch_size?)"),
        (lambda: lablib.SamplerOptions(temp=0.5), "(here it is temperature=); SamplerOptions"),
        (lambda: lablib.SamplerOptions(temprature=0.5), "(did you mean temperature?)"),
        (lambda: lablib.SamplerOptions(repetition_penalty=2), "(here it is repeat_penalty=)"),
        (lambda: lablib.Sampler(num_ctxt=8), "(did you mean num_ctx?)"),
        (lambda: lablib.Tree(None, deph=3), "(did you mean depth?)"),
        (lambda: lablib.NGram(longst=3), "(did you mean longest?)"),
        (lambda: lablib.AdaptiveLength(mots=3), "(did you mean most?)"),
        (lambda: lablib.llama_config(8, 8, 1, 1, n_kv_head=1), "(did you mean n_kv_heads?)"),
        (lambda: lablib.hybrid_config(8, 8, 1, 1, max_position=9), "(did you mean max_positions?)"),
        (lambda: lablib.save(None, None, "x", dtpye=None), "(did you mean dtype?)"),
        (lambda: lablib.inference.Costs((1.0,), drafts=0.1), "(did you mean draft?)"),
        (lambda: lablib.on_text(None, func=len), "(did you mean function?)"),
        (lambda: lablib.generate(None, None, "x", stops=["."]), "(did you mean stop?); generate"),
        (lambda: lablib.generate(None, None, "x", stop_words=["."]), "(here it is stop=)"),
        (lambda: lablib.generate(None, None, mesages=[]), "(did you mean messages?); generate"),
        (lambda: lablib.generate(None, None, "x", progres=True), "(did you mean progress?)"),
        (lambda: lablib.generate(None, None, ["x"], max_bach=1), "(did you mean max_batch?)"),
        (lambda: lablib.generate(None, None, "x", draft=None), "(here it is draft_model=)"),
        (lambda: lablib.stream(None, None, "x", drafter=None), "(here it is draft_model=); stream"),
        (lambda: lablib.best_of_n(None, [1], reward_fn=len), "(here it is score_fn=); best_of_n"),
        (lambda: lablib.majority_vote(None, [1], extrct=len), "(did you mean extract?); majority"),
        (lambda: lablib.speculative_decode(None, None, [1], gamma=3), "is draft_tokens=); specul"),
        (lambda: lablib.speculative_decode(None, None, [1], draft_token=3), "mean draft_tokens?)"),
        (lambda: lablib.majority_vote(None, [1], temprature=1), "(did you mean temperature?)"),
        (lambda: lablib.best_of_n(None, [1], score_f=len), "(did you mean score_fn?)"),
        (lambda: lablib.generate(None, None, input_ids=[1]), "(here it is prompt=, which takes"),
        (lambda: lablib.generate(None, None, "x", min_tokens=3), "(here it is stop_tokens=()"),
        (lambda: lablib.Engine(None, None, max_num_seqs=8), "(here it is max_batch=, of"),
        (lambda: lablib.generate(None, None, "x", max_batch=2), "(of several prompts, or with n=)"),
        (lambda: lablib.generate(None, None, "x", options=1), "(here it is its fields, each a"),
        (lambda: lablib.sample_many(None, [[1]], progress=True), "(samples, vote_many and best_of"),
        (
            lambda: lablib.speculative_batch(None, None, [], trace=True),
            "speculative_decode has",
        ),
    ],
)
def test_the_nearest_option_is_named(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=r"^unknown option '") as caught:
        call()
    assert said in str(caught.value)


def test_nothing_was_done_before_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr("lablib.models.files.read", lambda path, as_stored: read.append(path))
    with pytest.raises(TypeError, match="unknown option 'dtyp'"):
        lablib.load("target", dtyp=mx.float16)
    assert not read


def test_what_is_marked_stays_what_it_was() -> None:
    assert list(inspect.signature(lablib.load).parameters)[:2] == ["name", "dtype"]
    assert inspect.signature(lablib.SamplerOptions).parameters["top_p"].default == 1.0
    assert isinstance(lablib.SamplerOptions(), lablib.SamplerOptions)
    assert inspect.getsource(lablib.load).splitlines()[1] == "def load("
    assert lablib.NGram(2, shortest=2).shortest == 2
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        lablib.load()


def test_a_class_made_from_a_marked_one_has_options_of_its_own() -> None:
    @checks_options
    class Narrow:
        def __init__(self, most: int = 1) -> None:
            self.most = most

    class Wide(Narrow):
        def __init__(self, least: int, most: int) -> None:
            super().__init__(most=most)
            self.least = least

    wide = Wide(least=1, most=2)
    assert (wide.least, wide.most) == (1, 2)
    with pytest.raises(TypeError, match=r"'must' \(did you mean most\?\); Narrow knows most"):
        Narrow(must=2)


@pytest.mark.parametrize(
    ("option", "ours"),
    [
        ("stop_token_ids", "stop_tokens="), ("ignore_eos", "stop_tokens=()"),
        ("enable_thinking", "template="), ("chat_template_kwargs", "template="),
        ("num_return_sequences", "n=, of generate"),
        ("best_of", "best_of_n("), ("num_beams", "beam_search"), ("guided_json", "Grammar("),
        ("response_format", "Grammar("), ("num_speculative_tokens", "draft_tokens="),
        ("n_predict", "max_tokens="), ("max_completion_tokens", "max_tokens="),
        ("sampling_params", "each a keyword"), ("speculative_model", "draft_model="),
    ],
)  # fmt: skip
def test_words_of_other_engines_are_answered_with_ours(option: str, ours: str, given: dict) -> None:
    with pytest.raises(TypeError, match=rf"{option!r} \(here it is [^;]*{re.escape(ours)}"):
        lablib.generate(given["model"], given["tokenizer"], "Mia", **{option: 1})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("genrate", "did you mean generate"), ("Grammar", "it is lablib.inference.Grammar"),
        ("SamplingParams", "here it is SamplerOptions"), ("nothing_like_it", "'nothing_like_it'$"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_there_is_answered_with_the_one_that_is(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        getattr(lablib, name)


def test_how_many_logprobs_is_another_option() -> None:
    with pytest.raises(TypeError, match="how many beside each token is top_logprobs="):
        lablib.SamplerOptions(logprobs=5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: lablib.AutoModelForCausalLM, "here it is load, which returns the model and"),
        (lambda: lablib.TextStreamer, "here it is stream"),
        (lambda: lablib.embed, "not offered: what models give are logits"),
        (lambda: lablib.SamplerOptions(max_tokens=3), "max_tokens=, of what draws the text"),
        (lambda: lablib.generate(None, None, "x", stream=True), "pieces of text come from stream"),
        (lambda: lablib.generate(None, "x"), "it stands before the prompt"),
        (lambda: lablib.Completion("x").choices, "the completion itself; n= gives a list"),
        (lambda: lablib.Completion("x").usage, "here it is stats, with prompt_tokens and tokens"),
        (lambda: lablib.sample_n(len, ["x", "y"], 4), "several are for samples, sample_many"),
        (lambda: lablib.sample_n(lablib.load("draft")[0], "x", 4), "encode it, or give tokenizer="),
        (lambda: lablib.save(len, None, "x"), "mlx-lm's own are saved by mlx_lm.utils.save"),
    ],
)
def test_a_habit_from_elsewhere_is_told_what_stands_here(call: Any, said: str) -> None:
    with pytest.raises((AttributeError, TypeError)) as caught:
        call()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("generate --model target", "here it is MODEL, without a flag"),
        ("generate target -p x", "the prompt in quotes behind MODEL"),
        ("generate target x --max_new_tokens 5", "here it is --max-tokens"),
        ("generate target x --temp 0.7", "here it is --temperature"),
        ("chat target --system-prompt x", "here it is --system"),
        ("generate target x --system-prompt x", "not offered: the prompt is the whole text"),
    ],
)
def test_a_flag_of_another_program_is_told_the_one_here(typed, said, capsys) -> None:
    with pytest.raises(SystemExit):
        main(typed.split())
    assert said in capsys.readouterr().err


# Each first of its room: a room that another import has opened would hide that it is closed.
@pytest.mark.parametrize("name", ["cache.kv.make", "inference.Grammar", "menu.xtc", "tools.sweep"])
def test_what_a_message_or_a_page_names_is_there_after_the_import_alone(name: str) -> None:
    done = run(f"import lablib\nlablib.{name}")
    assert done.returncode == 0, done.stderr
