"""The predictions of lesson 17's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "17.q1",
        "A model says sun on the first day with 0.5. After sun it hardly ever says ice, after ice "
        "it mostly does. A mask allows only ice on the second day. How often is the first day "
        "sunny now?",
        ("as often as before", "less often", "more often"),
    ),
    Question(
        "17.q2",
        "The same model, and of its free texts only those are kept that happen to have ice on the "
        "second day. Which share of them has sun on the first day, 0 to 1? (Sun 0.5, and ice "
        "after it 0.02; ice on the second day 0.12 in all.)",
    ),
    Question(
        "17.q3",
        "A model adds six digits in a chain of steps and repeats the last total as its answer. A "
        "mask allows only even digits as the answer. Which share of the answers are their own "
        "chain's total, 0 to 1?",
    ),
    Question(
        "17.q4",
        "Texts that are led by a mask get weights, and where these grow uneven the population is "
        "drawn anew. What does that do to the number of ancestors that today's texts had on the "
        "first day?",
        ("it stays", "it falls", "it rises"),
    ),
    Question(
        "17.q5",
        "Only the large model is masked, the small one drafts as ever. What becomes of the text, "
        "and of the drafts kept?",
        ("the text is wrong", "the text is right, fewer drafts are kept", "nothing changes"),
    ),
    Question(
        "17.q6",
        "A chain of five sums, as 3+9=2;, and an answer has 32 tokens. Its grammar leaves a choice "
        "only where a digit is new. No draft model: tokens that must come are drafts, which the "
        "next call reads, and those behind the last choice cost a call of their own. How many "
        "tokens does each call write?",
    ),
    Question(
        "17.m1",
        "A grammar forces a model's answers into a form. Are the answers those that the model "
        "gives when it happens to use the form by itself?",
        ("yes: the same, without the others", "no: other ones become frequent"),
        truth="b",
    ),
]
