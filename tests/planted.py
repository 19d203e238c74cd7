"""Small bugs to be planted, three in each room, by somebody who did not know the tests.

    python tests/planted.py CHECKOUT OUT.json [--marker thorough] [ID ...]

Each is planted alone, its room's tests run first, the suite only where these miss it. It takes
minutes a bug. A bug whose line is no longer there is refused: write it anew.
"""

import argparse
import json
import re
import subprocess
from pathlib import Path

ROOMS = {
    "models": ["tests/models"],
    "cache": ["tests/cache"],
    "machine": ["tests/lab/test_backend.py", "tests/lab/test_few_rows.py", "tests/lab/test_cli.py"],
    "sampling": ["tests/sampling"],
    "decoding": ["tests/tokens", "tests/voting", "tests/speculation"],
    "voting": ["tests/voting"],
    "speculation": ["tests/speculation", "tests/speculation_greedy", "tests/speculation_lossless"],
    "async_lm": ["tests/async_lm"],
    "steering": ["tests/steering"],
    "course/checks+lessons": [
        "tests/teach/test_checking.py",
        "tests/teach/test_values.py",
        "tests/lessons",
    ],
    "course/tasks+theory+replay": ["tests/tasks", "tests/theory", "tests/replay"],
    "course/plots": ["tests/plots"],
    "tools": ["tests/tools"],
    "tools/site": ["tests/site"],
}

BUGS = [
    {
        "id": "models-chunk-mask",
        "room": "models",
        "file": "lablib/models/retention.py",
        "old": "mask[:, start : start + size]",
        "new": "mask[:, :size]",
        "why": "every chunk of 128 tokens takes the first chunk's padding mask",
    },
    {
        "id": "models-theta",
        "room": "models",
        "file": "lablib/models/kernels.py",
        "old": "_kept_table(offset, length, head_dim // 2, theta)",
        "new": "_kept_table(offset, length, head_dim // 2, 10_000.0)",
        "why": "rope_theta is ignored in forwards of up to 16 tokens",
    },
    {
        "id": "models-last-position",
        "room": "models",
        "file": "lablib/models/base.py",
        "old": "if first + length > self.max_positions:",
        "new": "if first + length >= self.max_positions:",
        "why": "off by one: the last row of the position table is refused",
    },
    {
        "id": "cache-free-slot",
        "room": "cache",
        "file": "lablib/cache/slab.py",
        "old": "range(self.capacity, count, -1)",
        "new": "range(self.capacity, count - 1, -1)",
        "why": "after compact the last live slot counts as free, and is given out again",
    },
    {
        "id": "cache-inside-edge",
        "room": "cache",
        "file": "lablib/cache/trie.py",
        "old": "node.logprobs if node.depth == len(prompt) else None",
        "new": "node.logprobs if matched == len(prompt) else None",
        "why": "a prompt that ends inside an edge gets the log-probabilities of the node above",
    },
    {
        "id": "cache-sinks",
        "room": "cache",
        "file": "lablib/cache/kv.py",
        "old": "integer(option, max_kv_size, 1), keep=0)",
        "new": "integer(option, max_kv_size, 1), keep=4)",
        "why": "wrong default: a window of max_kv_size keeps four attention sinks",
    },
    {
        "id": "machine-soft-limit",
        "room": "machine",
        "file": "lablib/machine/open_files.py",
        "old": "_, most = resource.getrlimit",
        "new": "most, _ = resource.getrlimit",
        "why": "the soft limit is taken for the hard one: no raise of open files gets through",
    },
    {
        "id": "machine-environment",
        "room": "machine",
        "file": "lablib/machine/backend.py",
        "old": "                os.environ[name] = value",
        "new": "                os.environ.setdefault(name, value)",
        "why": "a user's own thread setting is not put back after the BLAS has loaded",
    },
    {
        "id": "machine-share",
        "room": "machine",
        "file": "lablib/machine/doctor.py",
        "old": "return reading / multiplying",
        "new": "return multiplying / reading",
        "why": "the ratio is upside down: doctor calls slow one-row products fast",
    },
    {
        "id": "sampling-draft-window",
        "room": "sampling",
        "file": "lablib/inference/sampling/text_sampler.py",
        "old": "ages < np.array(windows",
        "new": "ages <= np.array(windows",
        "why": "off by one: beside drafts the penalties see one token more than repeat_last_n",
    },
    {
        "id": "sampling-nucleus-rows",
        "room": "sampling",
        "file": "lablib/inference/sampling/transforms.py",
        "old": "limit[rows], wider)",
        "new": "limit[: len(unfinished)], wider)",
        "why": "rows whose nucleus goes on (V > 2,048) take the limits of the batch's first rows",
    },
    {
        "id": "sampling-eta",
        "room": "sampling",
        "file": "lablib/inference/sampling/menu.py",
        "old": "mx.minimum(bound, bound / 2 - _entropy(logs))",
        "new": "mx.maximum(bound, bound / 2 - _entropy(logs))",
        "why": "eta cuts at the higher of its two bounds instead of the lower",
    },
    {
        "id": "decoding-stop-top",
        "room": "decoding",
        "file": "lablib/inference/decoding/rows.py",
        "old": "top=self.top[:end],",
        "new": "top=self.top,",
        "why": "top_logprobs are not cut at an accepted stop token, and outnumber the tokens",
    },
    {
        "id": "decoding-last-place",
        "room": "decoding",
        "file": "lablib/inference/decoding/scheduler.py",
        "old": "taken + len(waiting[0]) > max_batch",
        "new": "taken + len(waiting[0]) >= max_batch",
        "why": "off by one: the last place of max_batch stays empty, which costs forwards",
    },
    {
        "id": "decoding-cut-back",
        "room": "decoding",
        "file": "lablib/inference/decoding/token_iterator.py",
        "old": "self._target.keep([len(text) - 1])",
        "new": "self._target.keep([len(text)])",
        "why": "a token that was asked for early is not taken back, and the cache is one too long",
    },
    {
        "id": "voting-tied-rivals",
        "room": "voting",
        "file": "lablib/inference/voting/leads.py",
        "old": "lead - rival - (earlier == rival)",
        "new": "lead - rival - (earlier > later)",
        "why": "a rival from before the leader is forgotten where a later one has as many votes",
    },
    {
        "id": "voting-exhausted",
        "room": "voting",
        "file": "lablib/inference/voting/vote.py",
        "old": "if not saved or reason is None:",
        "new": "if reason is None:",
        "why": "a vote that has drawn all n samples calls itself certain, not exhausted",
    },
    {
        "id": "voting-at-least",
        "room": "voting",
        "file": "lablib/inference/voting/stopping.py",
        "old": "not counts or drawn < self.at_least",
        "new": "not counts or sum(counts) < self.at_least",
        "why": "samples without an answer do not count towards at_least",
    },
    {
        "id": "speculation-no-guess",
        "room": "speculation",
        "file": "lablib/inference/speculation/judge.py",
        "old": "sampler.draw(scores[:, :1], None)",
        "new": "sampler.draw(scores[:, -1:], None)",
        "why": "in a batch a row without a guess draws from the logits after its padding",
    },
    {
        "id": "speculation-ngram-rows",
        "room": "speculation",
        "file": "lablib/inference/speculation/ngram.py",
        "old": "[self._indexes[row] for row in rows]",
        "new": "self._indexes[: len(rows)]",
        "why": "when a text leaves, those after it go on with another text's index",
    },
    {
        "id": "speculation-last-draft",
        "room": "speculation",
        "file": "lablib/inference/speculation/draft_model.py",
        "old": "self._read_until(text, end)",
        "new": "self._read_until(text, end - 1)",
        "why": "a last draft that stayed is not read at the end: draft_cache is one token short",
    },
    {
        "id": "async-own-copy",
        "room": "async_lm",
        "file": "lablib/inference/async_lm/lm.py",
        "old": "return own_copy(row)",
        "new": "return row",
        "why": "a row found in the tree is handed out itself: who writes into it spoils the cache",
    },
    {
        "id": "async-seed",
        "room": "async_lm",
        "file": "lablib/inference/async_lm/lm.py",
        "old": "SamplerOptions(temperature=temperature, seed=seed)",
        "new": "SamplerOptions(temperature=temperature)",
        "why": "sample ignores its seed",
    },
    {
        "id": "async-parent",
        "room": "async_lm",
        "file": "lablib/inference/async_lm/plan.py",
        "old": "path[-1].start >= common",
        "new": "path[-1].start > common",
        "why": "a run waits for a sibling, not for the run that computes the tokens before it",
    },
    {
        "id": "steering-potentials",
        "room": "steering",
        "file": "lablib/inference/steering/particles.py",
        "old": "[self._potentials[parent] for parent in self._parents]",
        "new": "[self._potentials[i] for i in range(len(keys))]",
        "why": "after a resampling a particle has its place's potential, not its parent's",
    },
    {
        "id": "steering-lengths",
        "room": "steering",
        "file": "lablib/inference/steering/power.py",
        "old": "new.log_q[place:]) - math.log(len(old.tokens))",
        "new": "new.log_q[place:]) - math.log(len(new.tokens))",
        "why": "the length of the old text is left out of the ratio: chains are biased by length",
    },
    {
        "id": "steering-length-power",
        "room": "steering",
        "file": "lablib/inference/steering/search.py",
        "old": "sorted(longer, key=lambda beam: -score(*beam))",
        "new": "sorted(longer, key=lambda beam: -beam[1])",
        "why": "length_power is ignored where beams are kept and ordered",
    },
    {
        "id": "checks-relative",
        "room": "course/checks+lessons",
        "file": "lablib/course/checks/values.py",
        "old": "gap <= tolerance * max(1.0, abs(expected))",
        "new": "gap <= tolerance * max(1.0, abs(got))",
        "why": "the tolerance grows with the student's answer: huge wrong numbers pass",
    },
    {
        "id": "lessons-shared",
        "room": "course/checks+lessons",
        "file": "lablib/course/lessons/lesson_06/widgets.py",
        "old": "allowed = StopRule(confidence).allowed_risk(self.n)",
        "new": "allowed /= self.n",
        "why": "lesson 06's looks share the promise equally, not as the library's do",
    },
    {
        "id": "lessons-quantised",
        "room": "course/checks+lessons",
        "file": "lablib/course/lessons/lesson_02/widgets.py",
        "old": "32 / self.GROUP",
        "new": "16 / self.GROUP",
        "why": "lesson 02 forgets that a quantised group has an offset beside its scale",
    },
    {
        "id": "replay-stop-at-n",
        "room": "course/tasks+theory+replay",
        "file": "lablib/course/replay/curves.py",
        "old": "stop.reason(list(tally.values()), drawn, n)",
        "new": "stop.reason(list(tally.values()), drawn, len(row))",
        "why": "adaptive votes of N stop as if all M samples were still to come",
    },
    {
        "id": "theory-tail",
        "room": "course/tasks+theory+replay",
        "file": "lablib/course/theory/estimators.py",
        "old": "tail, resamples = (1 - _level(level)) / 2,",
        "new": "tail, resamples = 1 - _level(level),",
        "why": "the bootstrap cuts the whole 5 % off each side: its 95 % interval is one of 90 %",
    },
    {
        "id": "tasks-used-up",
        "room": "course/tasks+theory+replay",
        "file": "lablib/course/tasks/sums.py",
        "old": "if left[x] <= 0:",
        "new": "if left[x] < 0:",
        "why": "off by one: a step may add a digit that is used up, or was never there, once",
    },
    {
        "id": "plots-reuse",
        "room": "course/plots",
        "file": "lablib/conversation.py",
        "old": "surplus = len(self._read) - self.reused",
        "new": "surplus = len(ids) - self.reused",
        "why": "what is new in a turn is counted in place of what the caches have to give back",
    },
    {
        "id": "plots-band",
        "room": "course/plots",
        "file": "lablib/course/plots/marks.py",
        "old": "for height in point[1:])]",
        "new": "for height in point[1:2])]",
        "why": "the ends of an interval may lie beyond the axis and are not refused",
    },
    {
        "id": "plots-reset",
        "room": "course/plots",
        "file": "lablib/course/plots/explorer.py",
        "old": "self._start, self._seen = self.values, True",
        "new": "self._start = self.values",
        "why": "each time a widget is shown anew, Reset's place moves to where the controls stand",
    },
    {
        "id": "models-gguf-heads",
        "room": "models",
        "file": "lablib/models/gguf/families.py",
        "old": '"attn_k": config["num_key_value_heads"]',
        "new": '"attn_k": config["num_attention_heads"]',
        "why": "keys of grouped heads are put in order as if there were as many heads as queries",
    },
    {
        "id": "tools-cosine",
        "room": "tools",
        "file": "lablib/tools/descent.py",
        "old": "optim.cosine_decay(peak, end - warmup, end=peak / 20)",
        "new": "optim.cosine_decay(peak, end, end=peak / 20)",
        "why": "the learning rate falls over `warmup` steps too many and does not reach its end",
    },
    {
        "id": "tools-lost",
        "room": "tools",
        "file": "lablib/tools/votes.py",
        "old": 'full["accuracy"] - row["accuracy"]',
        "new": 'row["accuracy"] - full["accuracy"]',
        "why": "the accuracy that stopping early loses has the wrong sign",
    },
    {
        "id": "site-merge",
        "room": "tools/site",
        "file": "lablib/tools/site/engine/tokenizer.mjs",
        "old": "if (rank < best)",
        "new": "if (rank <= best)",
        "why": "of equal pairs the rightmost is merged: some texts get other tokens than in Python",
    },
    {
        "id": "site-draft-cache",
        "room": "tools/site",
        "file": "lablib/tools/site/engine/rounds.mjs",
        "old": "this.draftCache?.trim(this.text.length - 1)",
        "new": "this.draftCache?.trim(this.text.length)",
        "why": "a refused draft stays in the draft's cache, and the next round has no draft",
    },
    {
        "id": "site-race",
        "room": "tools/site",
        "file": "lablib/tools/site/page/pictures.mjs",
        "old": "(place < leader ? 0 : 1)",
        "new": "(place < leader ? 1 : 0)",
        "why": "ties go the wrong way where the race says that the leader can't lose any more",
    },
]


def plant(root: str | Path, name: str) -> Path:
    """Put a bug into the tree at ``root``; return the file that has it now."""
    return _swap(root, name, "old", "new")


def lift(root: str | Path, name: str) -> Path:
    """Take a planted bug out again; return the file that had it."""
    return _swap(root, name, "new", "old")


def _swap(root: str | Path, name: str, before: str, after: str) -> Path:
    (bug,) = [each for each in BUGS if each["id"] == name]
    path = Path(root, bug["file"])
    text = path.read_bytes().decode()
    if (count := text.count(bug[before])) != 1:
        raise ValueError(f"{name}: {before} must occur once in {path}, got {count}")
    path.write_bytes(text.replace(bug[before], bug[after]).encode())
    return path


def main() -> None:
    """Plant each bug, run its room's tests, then what is left of the suite; write who noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="a checkout of its own, with a .venv")
    parser.add_argument("out", type=Path, help="a JSON file, which is gone on with")
    parser.add_argument("--marker", default="not thorough and not slow", help="the tier")
    parser.add_argument("ids", nargs="*")
    given = parser.parse_args()
    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    for bug in BUGS:
        name = bug["id"]
        if name in found or (given.ids and name not in given.ids):
            continue
        plant(given.root, name)
        try:
            for paths in (ROOMS[bug["room"]], []):
                command = [".venv/bin/python", "-m", "pytest", "-x", "-q", "-m", given.marker]
                done = subprocess.run(
                    [*command, *paths], cwd=given.root, capture_output=True, text=True
                )
                if done.returncode:
                    break
        finally:
            lift(given.root, name)
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        found[name] = {"by its room": bool(paths and failed), "failed": failed[:1]}
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        print(name, *failed[:1] or ["was not noticed"], flush=True)


if __name__ == "__main__":
    main()
