"""Every architecture of the installed mlx-lm that can be built small, with random weights.

``SMALL`` holds one small value for each name that their configurations use; ``OWN`` what an
architecture must have otherwise. ``CANNOT`` says why the others are left out.
"""

import argparse
import dataclasses
import pathlib
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from lablib import inference
from lablib.models import LanguageModel, gpt_config, hybrid_config, llama_config
from lablib.models.head import DraftHead
from lablib.validation import BadType, BadValue

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.models
import numpy as np
from mlx.utils import tree_map_with_path
from mlx_lm.models.cache import make_prompt_cache
from tabulate import tabulate

VOCAB, WINDOW = 64, 16
SMALL: dict[str, Any] = {
    "vocab_size": VOCAB, "num_vocab": VOCAB, "model_dim": 64, "hidden_size": 64,
    "hidden_dim": 64, "intermediate_size": 64,
    "num_hidden_layers": 3, "num_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2,
    "num_heads": 2, "num_kv_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-5, "norm_eps": 1e-5,
    "layer_norm_eps": 1e-5, "layer_norm_epsilon": 1e-5, "layernorm_epsilon": 1e-5,
    "max_position_embeddings": 128, "model_max_length": 128, "rope_theta": 1e4,
    "rope_scaling": None, "partial_rotary_factor": 0.5, "rotary_dim": 16, "rotary_pct": 0.5,
    "rotary_emb_base": 1e4, "tie_word_embeddings": False, "attention_bias": False,
    "mlp_bias": False, "use_bias": False, "use_qkv_bias": False, "norm_topk_prob": True,
    "sliding_window": WINDOW, "sliding_window_size": WINDOW, "attention_window_size": WINDOW,
    "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_topk": 2,
    "num_local_experts": 4, "n_routed_experts": 4, "n_shared_experts": 1, "num_shared_experts": 1,
    "num_shared_expert": 1, "shared_expert_intermediate_size": 32, "moe_num_experts": 4,
    "shared_intermediate_size": 32, "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "n_group": 1, "topk_group": 1,
    "num_expert_group": 1, "moe_layer_freq": 1, "topk_method": "noaux_tc",
    "scoring_func": "sigmoid", "num_dense_layers": 1, "use_expert_bias": True,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "use_qk_norm": True, "qk_norm": True, "post_norm": True,
    "n_embd": 64, "n_head": 2, "n_layer": 3, "n_positions": 128, "n_ctx": 128, "n_inner": 64,
    "logits_scaling": 1.0, "attention_multiplier": 0.2, "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0, "conv_kernel": 4, "use_conv_bias": True, "conv_bias": False,
    "conv_L_cache": 3, "state_size": 8, "time_step_rank": 4, "n_groups": 1,
    "time_step_limit": (0.001, 100.0), "index_head_dim": 16, "index_n_heads": 2, "index_topk": 8,
    "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 32,
    "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "full_attention_interval": 2,
    "layer_group_size": 2, "group_norm_size": 1, "dim_model_base": 64, "scale_depth": 1.0,
    "scale_emb": 1.0, "block_size": 128, "num_loops": 2, "loop_window_size": WINDOW,
    "n_kv_heads": 2, "a_low_rank_dim": 8,
    "v_low_rank_dim": 8, "gate_low_rank_dim": 8, "decay_low_rank_dim": 8,
    "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"},
}  # fmt: skip
MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
CONV = {"layer_types": ["conv", "full_attention", "conv"]}
YARN = {
    "type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "mscale": 1.0,
    "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
}  # fmt: skip
SCALED = {
    "rope_parameters": {
        "rope_theta": 1e4, "rope_type": "default", "type": "default",
        "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 64,
    }
}  # fmt: skip
LFM2 = {
    "block_dim": 64, "block_ff_dim": 64, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": False, "full_attn_idxs": [1],
}  # fmt: skip
LLAMA4 = {
    "intermediate_size_mlp": 64, "interleave_moe_layer_step": 2, "attention_chunk_size": 16,
    "num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0], "use_qk_norm": False,
}  # fmt: skip
KIMI = {
    "linear_attn_config": {
        "kda_layers": [1, 3], "full_attn_layers": [2], "num_heads": 2, "head_dim": 32,
        "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
    },
    "num_experts_per_token": 2,
}  # fmt: skip
LONGCAT = {
    "attention_method": "MLA", "zero_expert_type": "identity", "ffn_hidden_size": 64,
    "expert_ffn_hidden_size": 32, "zero_expert_num": 2, "mla_scale_q_lora": True,
    "mla_scale_kv_lora": True, "ngram_vocab_size_ratio": 2,
}  # fmt: skip
GEMMA4 = {
    "layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4,
    "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 16, "global_head_dim": 32,
    "vocab_size_per_layer_input": VOCAB, "rope_parameters": None,
}  # fmt: skip
ROPES = {
    kind: {"rope_theta": 1e4, "rope_type": "default"}
    for kind in ("sliding_attention", "full_attention")
}
OWN: dict[str, dict[str, Any]] = {  # beside SMALL, where an architecture wants more
    "afm7": {"num_kv_reuse_layers": 1},
    "afmoe": MIXED,
    "baichuan_m1": {"sliding_window_layers": [1], "conv_window": 2},
    "cohere2": {"sliding_window_pattern": 2},
    "dbrx": {
        "d_model": 64, "n_layers": 3, "n_heads": 2,
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e4},
    },
    "deepseek_v2": {"rope_scaling": YARN, "topk_method": "greedy"},
    "exaone4": {"sliding_window_pattern": "LG"},
    "exaone_moe": {**MIXED, "is_moe_layer": [False, True, True]},
    "gear": {"layer_types": ["conv_mixer", "full_attention", "sliding_attention"]},
    "gemma3": {"sliding_window_pattern": 2},
    "gemma3_text": {"sliding_window_pattern": 2},
    "gemma3n": {
        **MIXED, "num_hidden_layers": 4, "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "vocab_size_per_layer_input": VOCAB, "rope_local_base_freq": 1e4,
        "final_logit_softcapping": 30.0, "activation_sparsity_pattern": [0.0] * 4,
        "hidden_size_per_layer_input": 16, "altup_num_inputs": 2, "altup_coef_clip": 120.0,
        "altup_correct_scale": True, "altup_active_idx": 0, "laurel_rank": 8,
    },
    "gemma4": GEMMA4,
    "gemma4_text": GEMMA4,
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention", "mamba"], "mamba_n_heads": 2, "mamba_d_head": 64,
        "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_proj_bias": False,
        "mamba_conv_bias": True, "position_embedding_type": "rope",
    },
    "hunyuan": {
        "use_mixed_mlp_moe": True, "use_cla": True, "cla_share_factor": 2,
        "rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "dynamic"},
    },
    "jamba": {
        "attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1,
        "expert_layer_period": 2, "mamba_d_conv": 4, "mamba_d_state": 8, "mamba_expand": 2,
        "num_experts": 1, "num_experts_per_tok": 1,
    },
    "kimi_k3": {**KIMI, "attn_res_block_size": 2, "activation_situ_beta": 1.0,
        "activation_situ_linear_beta": 1.0, "model_type": "kimi_linear"},
    "kimi_linear": KIMI,
    "lfm2": LFM2,
    "lfm2-vl": LFM2,
    "lfm2_moe": CONV,
    "llama4": {**LLAMA4, "num_experts_per_tok": 1},
    "llama4_text": LLAMA4,
    "longcat_flash": LONGCAT,
    "longcat_flash_ngram": LONGCAT,
    "mellum": {**MIXED, "rope_parameters": ROPES},
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [1, 0, 1], "moe_layer_freq": [0, 1, 1],
        "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False,
        "swa_rope_theta": 1e4, "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2,
        "swa_head_dim": 32, "swa_v_head_dim": 16,
    },
    "minicpm3": {"rope_scaling": {"type": "longrope", "original_max_position_embeddings": 64,
        "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}},
    "minimax_m3_vl": {
        "moe_layer_freq": [0, 1, 1], "dense_intermediate_size": 64, "index_block_size": 4,
        "index_topk_blocks": 2, "sparse_attention_freq": [0, 1, 1],
    },
    "ministral3": SCALED,
    "mistral4": SCALED,
    "mistral3": SCALED,
    "nemotron": {"hidden_act": "relu2"},
    "nemotron-nas": {
        "block_configs": [
            {"attention": {"n_heads_in_group": 1}, "ffn": {"ffn_mult": 1.0}},
            {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
            {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.0}},
        ]
    },
    "nemotron_h": {
        "mamba_num_heads": 2, "mamba_head_dim": 32, "mamba_proj_bias": False, "ssm_state_size": 8,
        "hybrid_override_pattern": ["M", "*", "-", "M"],
    },
    "olmo3": MIXED,
    "olmo_hybrid": {
        "linear_allow_neg_eigval": True,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    },
    "openelm": {
        "num_transformer_layers": 3, "model_dim": 64, "ffn_dim_divisor": 8,
        "num_query_heads": [2, 2, 2], "num_kv_heads": [2, 1, 2], "ffn_multipliers": [1.0] * 3,
    },
    "plamo": {"n_shared_head": 2},
    # Its mask shows one token more than its ring holds: past the window a block and single tokens
    # differ, whoever reads them.
    "plamo3": {"sliding_window": 64},
    "qwen": {"kv_channels": 32},
    "recurrent_gemma": {
        "conv1d_width": 4, "logits_soft_cap": 30.0,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
    "spark2_5": {**MIXED, "rope_parameters": ROPES},
    "step3p5": {**MIXED, "num_attention_groups": 2, "moe_top_k": 2, "share_expert_dim": 32,
        "partial_rotary_factors": [0.5, 1.0, 0.5]},
}  # fmt: skip
CANNOT = {
    "bitnet": "its ternary products are Metal kernels",
    "muse_spark": "its rotations are a Metal kernel",
    "olmo": "needs the package ai2-olmo",
    "phi3small": "its sparse attention writes outside its arrays: a forward ends in malloc()",
    "prism_hadamard_qwen35": "its weights are packed by another program",
}


OURS = {"lablib llama": llama_config, "lablib gpt": gpt_config, "lablib hybrid": hybrid_config}


def names() -> list[str]:
    """The modules of mlx-lm that hold an architecture and can be built."""
    folder = pathlib.Path(mlx_lm.models.__path__[0])
    found = (path.stem for path in sorted(folder.glob("*.py")))
    return [name for name in found if name not in CANNOT and _is_architecture(folder, name)]


def _is_architecture(folder: pathlib.Path, name: str) -> bool:
    source = (folder / f"{name}.py").read_text()
    return "class Model(" in source and "ModelArgs" in source


def _ours(name: str) -> LanguageModel:
    return LanguageModel(OURS[name](VOCAB, d_model=64, n_heads=2, n_layers=3, d_ff=64), seed=0)


def _theirs(name: str) -> Any:
    module = import_module(f"mlx_lm.models.{name}")
    arguments = {"model_type": name, **SMALL, **OWN.get(name, {})}
    fields = {field.name for field in dataclasses.fields(module.ModelArgs)}
    if "text_config" in fields:
        arguments["text_config"] = dict(arguments)
    return module.Model(module.ModelArgs.from_dict(arguments))


def build(name: str, seed: int = 0, noise: float = 0.0, gain: float = 1.3) -> Any:
    """The architecture ``name`` with weights of its own; with ``noise`` so far from those."""
    model = _ours(name) if name in OURS else _theirs(name)
    rng, other = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])

    def draw(path: str, weight: mx.array) -> mx.array:
        if weight.ndim < 2 or not mx.issubdtype(weight.dtype, mx.floating):
            return weight
        values = rng.standard_normal(weight.shape) + noise * other.standard_normal(weight.shape)
        inputs = max(weight.shape[1:]) if "conv" in path else weight.shape[-1]
        return mx.array((gain * values / np.sqrt(inputs)).astype(np.float32))

    model.update(tree_map_with_path(draw, model.parameters()))
    mx.eval(model.parameters())
    return model.eval() if isinstance(model, nn.Module) else model


# --- what is tried ----------------------------------------------------------------------------

PROMPT, LENGTH = [3, 1, 4, 1, 5], 20  # longer than a window
PROMPTS = [[7, 2], PROMPT, [9, 9, 8, 6, 7, 5, 3, 0, 9]]
ROUNDING = {"float32": 1e-3, "4 bits": 1e-3, "bfloat16": 5e-2}  # of what the logits span


class Reference:
    """What a model says after a text, by one forward of all of it into an empty cache."""

    def __init__(self, model: Any, rounding: float) -> None:
        self.model, self._rounding = model, rounding
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def logits(self, text: Sequence[int]) -> np.ndarray:
        """The logits ``(V,)`` after a text, float64."""
        key = tuple(text)
        if key not in self._known:
            logits = self.model(mx.array([key]), cache=make_prompt_cache(self.model))[0, -1]
            self._known[key] = np.array(logits.astype(mx.float32), dtype=np.float64)
        return self._known[key]

    def judge(
        self, tokens: Sequence[int], logprobs: Sequence[float] = (), prompt: Sequence[int] = PROMPT,
        greedy: bool = True,
    ) -> None:  # fmt: skip
        """Fail unless each token is the best there, ties aside, and its log-probability is so."""
        for i, token in enumerate(tokens):
            logits = self.logits([*prompt, *tokens[:i]])
            allowed = self._rounding * np.ptp(logits)
            if greedy and logits.max() - logits[token] > allowed:
                raise Wrong(f"token {i} is {logits.max() - logits[token]:.2g} below the best")
            if len(logprobs):
                self.compare(logprobs[i], log_softmax(logits)[token], allowed)

    def answers(self, rows: mx.array, prompts: Sequence[Sequence[int]]) -> None:
        """Fail unless these are the log-probabilities after the prompts."""
        for row, prompt in zip(rows, prompts, strict=True):
            logits = self.logits(prompt)
            self.compare(np.array(row), log_softmax(logits), self._rounding * np.ptp(logits))

    @staticmethod
    def compare(got: Any, wanted: Any, allowed: float) -> None:
        """Fail if the largest difference is more than is allowed."""
        off = np.abs(np.asarray(got) - wanted).max()
        if not off <= allowed:
            raise Wrong(f"log-probabilities are off by {off:.2g}, {allowed:.2g} is rounding")


class Wrong(Exception):
    """Another text or other numbers than the model's own."""


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


Trial = Callable[[Any, Any, Reference], None]


def plain(model: Any, near: Any, reference: Reference) -> None:
    iterator = inference.TokenIterator(model, PROMPT, max_tokens=LENGTH, temperature=0.0)
    list(iterator)
    reference.judge(iterator.tokens, iterator.logprobs)


def many(model: Any, near: Any, reference: Reference) -> None:
    samples = inference.sample_n(model, PROMPT, 3, max_tokens=8, seed=1)
    for tokens, logprobs in zip(samples.tokens, samples.logprobs, strict=True):
        reference.judge(tokens, logprobs, greedy=False)


def speculative(drafter: Callable[[Any, Any], Any], **options: Any) -> Trial:
    def trial(model: Any, near: Any, reference: Reference) -> None:
        given = {name: make() for name, make in options.items()}
        given |= {"max_tokens": LENGTH, "temperature": 0.0}
        iterator = inference.SpeculativeTokenIterator(model, drafter(model, near), PROMPT, **given)
        list(iterator)
        reference.judge(iterator.tokens, iterator.logprobs)
        more = {"cache": iterator.cache, "max_tokens": 3, "temperature": 0.0}
        again = inference.TokenIterator(model, iterator.tokens[-1:], **more)
        reference.judge([token.id for token in again], prompt=PROMPT + iterator.tokens)

    return trial


def batched(model: Any, near: Any, reference: Reference) -> None:
    for draft in (near, inference.NGram()):
        samples = inference.speculative_batch(model, draft, PROMPTS, max_tokens=10, temperature=0.0)
        for prompt, tokens, logprobs in zip(PROMPTS, samples.tokens, samples.logprobs, strict=True):
            reference.judge(tokens, logprobs, prompt)


def vote(model: Any, near: Any, reference: Reference) -> None:
    ((tokens, count),) = inference.majority_vote(model, PROMPT, n=3, max_tokens=6, temperature=0.0)
    reference.judge(tokens)
    assert count == 3


def asked(*numbers: int) -> Trial:
    def trial(model: Any, near: Any, reference: Reference) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            lm = inference.AsyncMlxLM(model, None)
            for more in ([], [2, 5], [2, 5, 1]):  # from the start, then on what is known
                prompts = [[*PROMPTS[number], *more] for number in numbers]
                reference.answers(lm.batch_next_token_logprobs_sync(prompts), prompts)

    return trial


TRIALS: dict[str, Trial] = {
    "plain": plain,
    "sample_n": many,
    "draft": speculative(lambda model, near: near),
    "itself": speculative(lambda model, near: model),
    "look-up": speculative(lambda model, near: inference.NGram(shortest=1)),
    "early exit": speculative(lambda model, near: inference.EarlyExit(1)),
    "head": speculative(lambda model, near: inference.Head(DraftHead(model, seed=1))),
    "adaptive": speculative(
        lambda model, near: near, draft_tokens=lambda: inference.AdaptiveLength(3)
    ),
    "batch": batched,
    "vote": vote,
    "async 1": asked(1),
    "async 2": asked(0, 2),
    "async 3": asked(0, 1, 2),
}
RIGHT, REFUSED = "right", "refused"


def examine(name: str, kind: str = "float32") -> dict[str, str]:
    """Try everything with one architecture; returns what came of it: right, refused or else."""
    model, near = (prepared(build(name, noise=noise), kind) for noise in (0.0, 0.3))
    reference, found = Reference(model, ROUNDING[kind]), {}
    for feature, trial in TRIALS.items():
        try:
            trial(model, near, reference)
            found[feature] = RIGHT
        except (BadValue, BadType) as error:
            found[feature] = f"{REFUSED}: {error}"
        except Wrong as error:
            found[feature] = f"wrong: {error}"
        except Exception as error:
            found[feature] = f"crashed: {type(error).__name__}: {error}"
    return found


def prepared(model: Any, kind: str) -> Any:
    """The model in float32, in bfloat16, or with its matrices in 4 bits."""
    if kind == "bfloat16":
        model.set_dtype(mx.bfloat16)
    elif kind == "4 bits":

        def fits(path: str, module: nn.Module) -> bool:
            return hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0

        nn.quantize(model, group_size=32, bits=4, class_predicate=fits)
    return model


DENSE = ["llama", "gemma2", "gemma3_text", "mamba2", "nemotron-nas", "rwkv7", "recurrent_gemma"]
# MLX's CPU runs their experts in float32 only.
EXPERTS = ["gpt_oss", "qwen3_next", "llama4", "deepseek_v3"]
WANTED = {
    "float32": [*OURS, *names()], "bfloat16": DENSE, "4 bits": DENSE + EXPERTS,
}  # fmt: skip
TABLE = pathlib.Path(__file__).parents[1] / "architectures.md"
MARKS = {RIGHT: "✓", REFUSED: "–"}


def mark(outcome: str) -> str:
    """What stands in the table for an outcome; what is wrong stands there in full."""
    return MARKS.get(outcome.split(":")[0], outcome)


def stored(kind: str) -> dict[str, dict[str, str]]:
    """The marks of the table for one kind of weights: architecture, feature, mark."""
    section = TABLE.read_text(encoding="utf-8").split(f"## {kind}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    (_, *features), _, *rows = [[cell.strip() for cell in row] for row in rows]
    return {name: dict(zip(features, marks, strict=True)) for name, *marks in rows}


def tables(wanted: dict[str, list[str]]) -> str:
    """Try these architectures for each kind of weights; returns the tables in Markdown."""
    parts = [
        "# Every architecture of mlx-lm that can be built small\n",
        "`python tests/oracles/architectures.py --write` makes these tables, and "
        "`pytest -m slow tests/speculation_greedy/test_every_architecture.py` compares them.\n",
        "✓: text, log-probabilities and what is left in the caches are the model's own. "
        "–: refused by name, before the first token. Columns: plain decoding, `sample_n`, "
        "drafts by a near model, by the model itself, by look-up, by early exit, by a draft head, "
        "with adaptive length, in a batch, a majority vote, `AsyncMlxLM` with one to three "
        "prompts at once. Tried at temperature 0, where all rules of acceptance are one.\n",
    ]
    for kind, some in wanted.items():
        why: dict[str, list[str]] = {}
        rows = []
        for name in some:
            found = examine(name, kind)
            rows.append([name, *map(mark, found.values())])
            for feature, outcome in found.items():
                if outcome.startswith(REFUSED):
                    sentence = outcome.removeprefix(f"{REFUSED}: ").replace(f"{name}.", "")
                    why.setdefault(sentence, []).append(f"{name} ({feature})")
            print(kind, *rows[-1], flush=True)
        table = tabulate(rows, ["architecture", *TRIALS], tablefmt="github")
        parts += [f"## {kind}\n", f"{table}\n"]
        for sentence, where in why.items():
            some = ", ".join(where) if len(where) < 9 else f"{len(where)} cells"
            parts.append(f"- {sentence}: {some}")
        parts.append("")
    parts.append("## Not tried\n")
    parts += [f"- {name}: {reason}" for name, reason in CANNOT.items()]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Print what comes of each architecture, or write the tables of all."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="architectures (default: all)")
    parser.add_argument("--kind", choices=ROUNDING, default="float32")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    arguments = parser.parse_args()
    if arguments.write:
        TABLE.write_text(tables(WANTED), encoding="utf-8")
        return
    totals: Counter[str] = Counter()
    for name in arguments.names or names():
        found = examine(name, arguments.kind)
        totals.update(outcome.split(":")[0] for outcome in found.values())
        odd = [f"{feature} {outcome}" for feature, outcome in found.items() if outcome != RIGHT]
        count = len(found) - len(odd)
        print(f"{name:22} {count:2} right", *odd, sep="\n    ", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in totals.items()))


if __name__ == "__main__":
    main()
