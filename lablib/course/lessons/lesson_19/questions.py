"""The predictions of lesson 19's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "19.q1",
        "A target answers of course or no problem, each with 1/2. A block's first place says of "
        "or no, each with 1/2, its second course or problem, each with 1/2. Both are drawn on "
        "their own, and judged by rejection. How many of the two drafts stay, on average?",
        ("2, as both places are exact", "1 1/2", "1"),
    ),
    Question(
        "19.q2",
        "A target writes she lost her or he lost his, each with 1/2. The places of a block are "
        "exact, and a Markov head tells each the word before it. How many of three drafts stay?",
        ("3", "2 1/2", "2"),
    ),
    Question(
        "19.q3",
        "A target says yes and no with 1/2 each, a draft says yes with 0.7. A look at the drawn "
        "word tells how likely it is to be kept: a yes is dropped, as it may be refused, a no is "
        "offered and kept. After a drop the target's own word is written. How often is it yes?",
        ("in less than half of the texts", "in half of them", "in more than half"),
    ),
    Question(
        "19.q4",
        "Each place of a block says exactly what stands there on average, and is then told its "
        "neighbour as well. In which of these texts do more drafts stay? Behind the bar is one way "
        "in which the text may go on.",
        (
            "she shows it to her | friend Paul, who",
            "2+3=5;5+ | 4=9;",
            "in both",
        ),
    ),
    Question(
        "19.m1",
        "Each place of a block says exactly what stands there. Is the block then as good as it "
        "can be?",
        ("yes", "no: places that are each right may contradict each other"),
        truth="b",
    ),
]
