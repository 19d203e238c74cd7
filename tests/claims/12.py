"""What checks the sentences of lesson 12 · A real model."""

from lablib.machine import few_rows

# %% after model
parameters = sum(array.size for _, array in tree_flatten(model.parameters()))
claim(
    "Here is SmolLM2 with 135 million parameters, trained to chat.",
    round(parameters / 1e6) == 135,
)

# %% after by-hand-cache-bytes
marks = [tokenizer.encode(mark) for mark in ("<|im_start|>", "<|im_end|>")]
claim(
    "The form has marks of its own, here <|im_start|> and <|im_end|>, each a single token.",
    all(len(mark) == 1 for mark in marks),
)

# %% after library-bits-answer
claim("Most of what the model reads is the form.", len(ids) - len(bare) > len(ids) / 2)
claim(
    "And the last line warns: whoever lets users write the marks lets them write in the "
    "assistant's name.",
    tokenizer.encode("<|im_end|>") == [tokenizer.eos_token_id],
)
(formed, why), (nothing, ended), (going, on) = said.values()
claim("With the form it answers and stops.", "Paris" in formed and why == "stop")
claim(
    "After the bare question its first guess is <|im_end|>: nobody's turn to answer was opened.",
    nothing == "" and ended == "stop",
)
claim(
    "The beginning of a sentence is continued, with no stop.", "Paris" in going and on == "length"
)
steps = [np.diff(np.unique(block)) for block, n in zip(blocks, different, strict=True) if n == 16]
claim(
    "The weights in the fetched file are quantised to four bits (llama.cpp's Q4_1).",
    max(different) == 2**4,
)
claim(
    "A block of 32 weights shares a scale and an offset.",
    all(step.max() < 1.1 * step.min() for step in steps[:200]) and len(steps) > 10,
)
claim("For computing, load unpacks them to 32 bits.", layer.dtype == mx.float32)
claim("Sixteen, as four bits allow.", max(different) == 16)
embedding = np.array(model.model.embed_tokens.weight[:2000]).reshape(-1, 32)
claim(
    "(The embedding has kept more.)",
    max(len(np.unique(block)) for block in embedding) > 16,
)

# %% after predict-cuts-answer
top_p, min_p = cuts.compute(0.9, 0.1).values()
shares = dict(zip(forced["tokens"], forced["p"], strict=True))
claim(
    "Five is the favourite, with a third of the mass: six, and and etc are English as well.",
    forced["tokens"][0] == " five"
    and abs(shares[" five"] - 1 / 3) < 0.03
    and {" six", " and", " etc"} < {*shares},
)
states = after.compute("The United States of", 1.0)
cat = after.compute("The cat sat on the", 1.0)
claim(
    "After The United States of the next word is nearly forced, after The cat sat on the none has "
    "a tenth.",
    states["tokens"][0] == " America" and states["p"][0] > 0.75 and cat["p"][0] < 0.1,
)
claim(
    "The second half of waved comes for nothing.",
    given[pieces.index("aved")] > 0.9,
)
claim(
    "But few of the tokens had more than half of the mass: on such text drafts have little to "
    "guess.",
    np.mean(given > 0.5) < 0.25,
)
claim("How many of its 49,152 tokens does a cut keep?", exact.shape[1] == 49_152)
claim(
    "At a sure place both keep one token.",
    top_p.min() == min_p.min() == 1 and bool(((top_p == 1) & (min_p == 1)).any()),
)
claim(
    "At an open place top-p has to collect hundreds of small ones to fill its 90 %.",
    200 < top_p.max() < 1000,
)
claim(
    "Min-p compares with the best token and stays in the dozens.",
    12 < min_p.max() < 100,
)

# %% after predict-votes-answer
claim(
    "Six sums and six facts, each asked eight times at temperature 0.8, after a few examples of "
    "the form.",
    len(sums) == len(facts) == 6 and all(len(each.answers) == 8 for each in asked),
)
by_name = {each.name: each for each in asked}
both = [lab.single_and_vote([a for a in asked if a.kind == kind]) for kind in ("sum", "fact")]
claim(
    "Six questions of a kind decide little: the intervals of one answer and of the vote overlap.",
    all(found["vote"][1] < found["one"][2] for found in both),
)
alone = [each for each in asked if each.leaders == (each.truth,)]
claim(
    "Where the right answer leads alone, the vote wins, though it may have less than half of the "
    "voices.",
    all(each.vote == 1 for each in alone) and min(each.single for each in alone) < 0.5,
)
tied = [by_name[name] for name in ("31 + 45 =", "64 + 59 =")]
claim(
    "Where it shares the lead, as in 31 + 45 and 64 + 59, the vote draws lots: a tie is not a win.",
    all(0 < each.vote < 1 and len(each.leaders) > 1 for each in tied),
)
capital = by_name["What is the capital of Australia?"]
claim(
    "Where the model believes something else, the vote makes it certain: the famous city is not "
    "the capital, and nearly all voices name it.",
    capital.leaders == ("Sydney",) and capital.answers.count("Sydney") >= 6 and not capital.vote,
)

# %% after predict-exit-answer
wanted = paragraph.replace("Anna", "Clara")
claim(
    "Nearly all of the answer stands in the prompt: a job for look-up.",
    np.mean([word in paragraph for word in wanted.split()]) > 0.9,
)
claim(
    "One block on top of the model's last hidden state (EAGLE's idea), trained on text that the "
    "model wrote.",
    head.head.shape.num_hidden_layers == 1,
)
claim("We ask for up to ten guesses a round.", edit_yield <= 10 + 1)
claim(
    "The copy has no mistake, and it was written in a fifth of the calls or fewer.",
    (start + tokenizer.decode(copy)).strip() == wanted and edit_yield >= 5,
)
yields = [row[2] for row in free]
claim(
    "A call can yield three; it yields about half as many for the first question, more for the "
    "last.",
    abs(yields[0] - 1.5) < 0.2 and yields[2] > yields[0] + 0.3 and max(yields) <= 3,
)
claim("The text is the same: race has asserted it.", len(free) == len(asks))
claim(
    "The model's own first layers need no training: stop after n of 30 layers and ask the output "
    "layer.",
    len(model.layers) == 30,
)
claim(
    "The guess becomes right in the very last layers, and a draft that needs nearly all of them "
    "costs nearly a token.",
    right[15] < 0.25 and right[26] < 0.5 and right[30] > 0.95,
)

# %% after theory-batch-answer
claim(
    "For few rows the library has products of its own (few_rows.c), which read each weight where "
    "it lies.",
    few_rows.SOURCE.name == "few_rows.c" and few_rows.SOURCE.is_file(),
)
claim(
    "The line few rows says whether this machine has them, or why not (they take a C compiler): "
    "without them the two lines mean the same.",
    real.few_rows().startswith(("in use", "not in use (")),
)
claim(
    "The count of tokens is not the gain: the price of a round divides it.",
    bool(np.isclose(promise(6, 2, costs.draft), 6 / needed)),
)
claim(
    "Promise and clock may part: prices are of another moment, a round of look-up with fewer than "
    "ten drafts costs less, and the head reads the prompt before its first guess, which no price "
    "contains.",
    promise(edit_yield, 9, 0.0) >= promise(edit_yield, 10, 0.0) and len(free[0][0]) > 2,
)
claim(
    "The weights are moved once for all eight, and little is left to share: a check of five tokens "
    "is one of 40 rows, and arithmetic grows with each.",
    5 * max(per_batch) == 40,
)
claim(
    "(From 17 rows on a product is left to OpenBLAS, whose copy then serves many.)",
    "MOST_ROWS = 16" in few_rows.SOURCE.read_text(),
)

# %% after theory-kv-answer
share = spent["8 bits"] / spent["exact"]
claim(
    "Keys and values can be stored with 8 or 4 bits as well.",
    spent["4 bits"] < spent["8 bits"] < spent["exact"],
)
claim(
    "Eight bits take little more than a quarter of the room of 32 (and more than half of the usual "
    "16), and the distribution hardly moves.",
    1 / 4 < share < 0.3 and 2 * share > 1 / 2 and abs(kl["8 bits"]) < 0.01,
)
claim(
    "With four bits it does: at a tenth of the places or more the best token is another one.",
    kl["4 bits"] > 0.05 and max(same["4 bits"], same["4 bits, groups of 32"]) <= 0.9,
)
claim(
    "Smaller groups help, and cost scales.",
    kl["4 bits, groups of 32"] < kl["4 bits"] and spent["4 bits, groups of 32"] > spent["4 bits"],
)

# %% after summary
claim(
    "This model's weights have four bits; a cache of 8 is nearly exact, one of 4 has to be "
    "measured.",
    max(different) == 2**4 and abs(kl["8 bits"]) < 0.01 < kl["4 bits"],
)
claim(
    "But the early exit failed, the head has to earn its gain, and a cut keeps hundreds of words.",
    right[22] < 0.5 and needed > 1 and top_p.max() > 200,
)
