"""What checks the sentences of lesson 00b · What a model is."""

from lablib.course.tasks import grammar

# %% after by-hand-pairs-answer
claim("Here is a corpus of eight words.", len(words) == 8)
spelled = Counter(corpus.split())
claim(
    "It is a and t: the comes three times, but at stands in four words.",
    first == ("a", "t")
    and spelled["the"] == 3
    and sum("at" in word for word in corpus.split()) == 4,
)

# %% after by-hand-merge-answer
claim("After three merges the has two pieces where it had four.", len(words[0]) == 2)
claim(
    "The third merge needs the piece that the second one made, so merges are done in the order in "
    "which they were learned.",
    pair[0] == "␣t" and merge(list("␣the"), pair) == list("␣the"),
)

# %% after by-hand-causal-answer
claim(
    "Here is a model of five words.",
    table.shape == (5, 2) and fits.shape == (2, 5) and len(names) == 5,
)
claim(
    "A vector's first number says whose word it is, the cat's (1) or the dog's (−1), the second "
    "whether it is an animal (−1) or follows one (1).",
    [table[names.index(word)].tolist() for word in ("cat", "dog", "says", "meow", "woof")]
    == [[1, -1], [-1, -1], [0, 1], [1, 1], [-1, 1]],
)
claim(
    "The block adds the mean of the vectors so far.",
    np.allclose(look_back(table)[2], table[:3].mean(axis=0)),
)
alone, (cat, dog) = forward([2], np.zeros_like)[0], [forward(text)[-1] for text in texts]
meow, woof = names.index("meow"), names.index("woof")
claim("Alone says fits meow and woof equally well.", alone[meow] == alone[woof] == alone.max())
claim(
    "The mean brings some of the animal into the sum, and that decides.",
    cat.argmax() == meow and dog.argmax() == woof and cat[meow] > cat[woof],
)
claim(
    "In other words, an earlier word can change what comes next only because a block looks back.",
    all((forward(text, np.zeros_like)[-1] == alone).all() for text in texts),
)
claim(
    "It gives a row for every place, because every vector goes the same way.",
    len(forward(texts[1])) == 2 and np.allclose(forward([1])[-1], forward(texts[1])[0]),
)
claim("Only the last row changes, because the block looks back and never ahead.", rows == [2])

# %% after library-tokens-answer
told = [tokenizer.decode([token]) for token in ids]
claim("The shipped model works the same way, with more merges and a larger table.", len(merges) > 3)
claim(
    "Common words of the stories are one token each.",
    {" finds", " tiny", " garden"} <= {*told},
)
begun = ["".join(pair).replace("Ġ", " ") for pair in merges]
claim(
    "Clock, one of their twelve things, has four: the 413 merges were spent before its turn came.",
    told[10:14] == [" c", "l", "o", "ck"]
    and "clock" in grammar.THINGS
    and (len(grammar.THINGS), len(begun)) == (12, 413)
    and not {" cl", "cl", "lo", "lock"} & {*begun},
)
claim(
    "The token <s> begins every text.", told[0] == tokenizer.decode(tokenizer.encode("")) == "<s>"
)

# %% after library-shapes-answer
claim("There are 512 scores for each of the 20 places.", logits.shape[1:] == (20, 512))
claim(
    "The first axis counts texts, because a model reads several at once; here it is one.",
    model(mx.concatenate([tokens, tokens])).shape == (2, *logits.shape[1:]),
)
claim(
    "A vector has 192 numbers, and eight blocks add to it.",
    vectors.shape[-1] == 192 and len(model.layers) == 8,
)

# %% after predict-without-answer
named = [pieces[i] for i in guesses.compute("… a tiny clo", 8)["guesses"]]
claim("It says ck from the sixth block on.", named[6:] == ["ck"] * 3 and "ck" not in named[:6])
claim(
    "So without a block o would follow o, because its own column fits a vector best.",
    named[0] == "o" and model.config.tie_word_embeddings,
)
claim("Then comes kes.", named[1] == "kes")
claim(
    "Only three pieces ever follow o: ok (book), ck (clock) and kes (strokes).",
    {pieces[b] for b in after_o} == {"ok", "ck", "kes"},
)
claim("The first block has found one of the three, though not ours.", named[1] == "kes")
says = []
for n in range(8):
    rest = first_layers(model, 8)
    rest.model.layers = rest.model.layers[:n] + rest.model.layers[n + 1 :]
    says.append(pieces[int(mx.argmax(rest(tokens[:, :13])[0, -1]))])
claim(
    "Blocks 7 and 8 speak against kes, too, so without block 6 not kes wins but ok.",
    says[5] == "ok"
    and named[6] == "ck"
    and guesses.chances["… a tiny clo"][5][pieces.index("kes")] > 0.7,
)
claim("Here, then, block 6 chooses ck.", named[5:7] == ["kes", "ck"])
claim(
    "Without 4, 5, 7 or 8 it says ck all the same.",
    [says[n - 1] for n in (4, 5, 7, 8)] == ["ck"] * 4,
)
claim(
    "Without one of the first three it says none of the three.",
    not {*says[:3]} & {"ok", "ck", "kes"},
)
claim(
    "In other words, a single block's addition can decide, and it needs what earlier ones have "
    "added.",
    says[5] != named[8] and "ck" not in says[:3],
)

# %% after theory-rows-answer
claim("By hand, an earlier row never changed when a later token did.", rows == [2])
claim(
    "So one forward answers as many questions as the text has places, and in the third act of this "
    "course a large model checks several guesses of a small one at once.",
    len(whole) == len(ids) and np.abs(whole - short).max() < 1e-2,
)

# %% after summary
claim("A forward gives a row of scores for every place.", len(whole) == len(ids))
claim(
    "Every place is answered at once, as if the text ended there.",
    np.abs(whole - short).max() < 1e-2,
)
