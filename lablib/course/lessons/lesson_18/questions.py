"""The predictions of lesson 18's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "18.q1",
        "A model begins a text with well (0.5) or yes (0.4). After well four words are equally "
        "likely, after yes nearly always yes again. Once each token's chances are taken to the "
        "fourth power and scaled, once each whole text's. Which first word is the likeliest?",
        (
            "well both times",
            "yes both times",
            "well by tokens, yes by texts",
            "yes by tokens, well by texts",
        ),
    ),
    Question(
        "18.q2",
        "A model adds six digits, and is right in about half of its chains. It writes colder, at "
        "temperature 1/4; or whole chains are drawn from p to the fourth. Which is right more "
        "often than the model at temperature 1?",
        ("neither", "both", "the cold one alone", "the fourth power alone"),
    ),
    Question(
        "18.q3",
        "A model learned to add from someone who errs on some pairs of digits, not each time. "
        "Where in its chains is it unsure of a result?",
        (
            "where the result is wrong",
            "where it adds such a pair, right or wrong",
            "nowhere: it learned the errors by heart",
        ),
    ),
    Question(
        "18.q4",
        "Three measures say how sure a model was of a chain. By each the surest tenth of 64 "
        "chains vote alone. Which of these votes are right more often than the vote of all?",
        ("each", "some, and some less often", "none"),
    ),
    Question(
        "18.q5",
        "Another author always errs on his 20 pairs and is sure of it; on all others he hesitates, "
        "and errs one time in ten. Of his chains, are the surest more often right than the others?",
        ("more often", "as often", "less often"),
    ),
    Question(
        "18.q6",
        "Chains are given up as soon as eight tokens in a row are less sure than the worst eight "
        "of a middling chain before. What becomes of the vote of those that are left, if fewer "
        "tokens are written?",
        ("it is right less often", "it is right as often, or more"),
    ),
    Question(
        "18.q7",
        "A chain of thought has 33 tokens and is right one time in two. Cut it off after 6 tokens "
        "and force an answer, 16 times, and let the answers vote: how often is the vote right?",
    ),
    Question(
        "18.q8",
        "A small real model has answered a thousand questions, eight times each. In the vote of "
        "the eight, each counts with the probability that the model gave to it. Is that vote right "
        "more often than the plain one?",
        ("more often", "less often", "they are not told apart"),
    ),
    Question(
        "18.m1",
        "A model is surer of one text than of another. Is that one right more often?",
        ("yes", "only where the model hesitates where it may be wrong"),
        truth="b",
    ),
]
