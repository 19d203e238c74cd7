"""What checks the sentences of lesson 00a · Arrays."""

# %% after by-hand-axis-answer
claim(
    "Its shape says how many there are along each axis: axis 0 goes down the rows, axis 1 goes "
    "across the columns.",
    counts.shape == (len(before), len(after)),
)
claim(
    "Here somebody has counted how often four words came after three others.",
    (len(after), len(before)) == (4, 3),
)
claim(
    "Three numbers come out, one for each row, because the sum walks across the columns and uses "
    "them up.",
    along.tolist() == [sum(row) for row in counts.tolist()] and len(along) == 3,
)

# %% after by-hand-square
claim(
    "Two arrays of one shape are added, or divided, number by number.",
    (counts + counts == 2 * counts).all() and np.allclose((counts + 1) / (counts + 1), 1),
)
claim(
    "A missing axis counts as one of length 1, and an axis of length 1 is stretched to fit the "
    "other array, which is called broadcasting.",
    np.broadcast_shapes(counts.shape, counts.max(axis=1)[:, None].shape) == counts.shape
    and (square - largest == square - largest[None, :]).all(),
)
claim(
    "It is an error, because from the right four columns meet three numbers. [:, None] adds an "
    "axis of length 1 at the end: it stands a list upright, and each number is stretched along its "
    "own row.",
    counts.shape[-1] != len(along) and along[:, None].shape == (3, 1),
)
claim(
    "It is an error, because from the right four columns meet three numbers. [:, None] adds an "
    "axis of length 1 at the end: it stands a list upright, and each number is stretched along its "
    "own row.",
    (np.broadcast_to(along[:, None], counts.shape) == [[n] * 4 for n in along.tolist()]).all(),
)

# %% after by-hand-lines
own = square - largest[:, None]
claim(
    "So look at the numbers as well.",
    (square - largest).shape == own.shape
    and (own.max(axis=1) == 0).all()
    and own.min() < 0
    and (square - largest).max(axis=1).any(),
)

# %% after by-hand-product-answer
claim(
    "first @ second lets every row of the first table meet every column of the second.",
    all(
        (baskets @ prices)[i, j] == sum(baskets[i] * prices[:, j]) for i in range(3) for j in (0, 1)
    ),
)
claim(
    "Three friends have written down what they want to buy, and two shops say what they ask for "
    "it.",
    (len(baskets), prices.shape[1]) == (3, 2),
)
claim(
    "A table of shape (3, 4) has met one of shape (4, 2), and (3, 2) came out.",
    (baskets.shape, prices.shape, (baskets @ prices).shape) == ((3, 4), (4, 2), (3, 2)),
)
claim(
    "second.T lays a table on its side, so x @ y.T lets the rows of one meet the rows of the "
    "other.",
    (baskets @ prices.T.T == product(baskets, prices)).all()
    and (baskets @ baskets.T)[0, 1] == sum(baskets[0] * baskets[1]),
)

# %% after by-hand-log-answer
least = np.nextafter(0.0, 1.0)
claim(
    "The product is 0, because a computer has no numbers between 0 and about 5e-324.",
    whole == 0 and 0 < least < 1e-323 and least / 2 == 0,
)
claim(
    "Two long texts then can't be compared.",
    np.prod(steps) == np.prod(steps * 1.02) == 0,
)
claim(
    "Logarithms help because they turn a product into a sum, log(a × b) = log a + log b, and a sum "
    "of a thousand numbers doesn't vanish.",
    np.isclose(np.log(0.3 * 0.7), np.log(0.3) + np.log(0.7)) and np.log(steps).sum() > -1400,
)
claim(
    "One keeps the exponent in place of the number: np.log is the natural logarithm, the exponent "
    "of e, and e to the −1386.29 is about 1e-602.",
    round(float(np.log(steps).sum()), 2) == -1386.29 and round(-1386.29 / np.log(10)) == -602,
)
claim("The logarithm of a probability is never above 0.", (np.log(steps) <= 0).all())
claim(
    "The nearer it is to 0, the more probable is the text.",
    np.log(steps[:2]).sum() > np.log(steps[:3]).sum() and steps[:2].prod() > steps[:3].prod(),
)

# %% after library-mlx-answer
claim(
    "Its numbers have 32 bits (float32), so about seven digits count.",
    bought.dtype == mx.float32
    and (mx.array(1.0) + 1e-6).item() > 1
    and (mx.array(1.0) + 3e-8).item() == 1,
)

# %% after library-seed-answer
again = [np.random.default_rng(5).random(6) for _ in range(2)]
claim(
    "The same seed gives the same numbers in the same order, so you see what we saw.",
    (again[0] == again[1]).all(),
)
claim(
    "A further call goes on in the order, and another library has an order of its own.",
    (again[0][:3] != again[0][3:]).all() and not np.allclose(again[0][:3], np.array(theirs)),
)

# %% after theory-vanish-answer
numbers = -np.log10(chances)
ends = [vanishes(chances.astype(kind)) for kind in (np.float64, np.float32)]
rooms = [-np.log10(float(np.finfo(kind).smallest_subnormal)) for kind in (np.float64, np.float32)]
claim(
    "It vanished a little sooner, because the stories up to there were a little less probable than "
    "the mean of all.",
    all(
        0.88 < end * numbers.mean() / room < 1 and numbers[:end].mean() > numbers.mean()
        for end, room in zip(ends, rooms, strict=True)
    ),
)
four, five = (sum(map(len, told[:n])) for n in (4, 5))
claim("With MLX's 32 bits it vanishes in the fifth story already.", four <= ends[1] < five)

# %% after summary
claim(
    "In a square table a forgotten [:, None] makes no error.",
    (square - square.max(axis=1)).shape == square.shape,
)
