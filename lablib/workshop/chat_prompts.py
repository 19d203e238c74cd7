"""Questions to a chat model, put together from topics and forms: as many as one wants, none copied.

What a model answers is its own text; the questions only have to be varied. Topics are split in two
by name, so that a model trained on answers about some can be tried on the others.
"""

import numpy as np

_TOPICS = """
    apples bread bridges candles clouds comets copper coral cotton deserts diamonds dreams
    drums earthquakes echoes electricity elevators fireflies fog forests fossils friendship
    gardens glaciers glass gold gravity guitars honey hurricanes ice insects islands jazz
    kites lakes leaves libraries light lightning magnets maps marble markets memory meteors
    milk mirrors moonlight mosquitoes mountains mushrooms music numbers oceans olives owls
    oxygen paint paper penguins pianos planets pottery pyramids rain rainbows rice rivers
    robots rockets roots rust salt sand satellites seeds shadows sharks silk silver sleep snow
    soap soil spiders spring steam stone storms sugar sunlight sunsets swamps swans tea
    telescopes thunder tides time toys trains trees tunnels turtles umbrellas violins
    volcanoes waterfalls waves weather wheat wheels whales wind winter wolves wood wool yeast
    algebra astronomy biology chess cooking cycling dancing drawing farming fishing geography
    grammar hiking history knitting painting photography poetry reading running sailing
    singing skiing sleeping swimming teaching travelling walking writing
"""
_FORMS = """
    What is interesting about {}?
    Explain {} to a child.
    Write a short story about {}.
    Write three sentences about {}.
    Give me five facts about {}.
    Why do people care about {}?
    How would you describe {} to somebody who has never seen any?
    Write a poem about {}.
    What are the most common questions about {}?
    Make a list of words that have to do with {}.
    Summarise the history of {} in one paragraph.
    What should a beginner know about {}?
    Compare {} and {}.
    Write a letter to a friend about {}.
    What could a lesson about {} look like?
    Tell me about {} and {}.
    Write a dialogue between two people who disagree about {}.
    Name some advantages and disadvantages of {}.
    Describe a day that has to do with {}.
    How has our view of {} changed?
    What would the world be like without {}?
    Write an advertisement that mentions {}.
    Give me advice: I want to learn more about {}.
    What is the connection between {} and {}?
"""


def prompts(seed: int, n: int, *, unseen: bool = False) -> list[str]:
    """Return ``n`` questions; with ``unseen`` about the topics that the others never mention."""
    rng = np.random.default_rng([seed, int(unseen)])
    topics = [topic for i, topic in enumerate(sorted(_TOPICS.split())) if (i % 8 == 0) == unseen]
    forms = [line.strip() for line in _FORMS.strip().splitlines()]
    questions = []
    for _ in range(n):
        form, pair = rng.choice(forms), rng.choice(topics, size=2, replace=False)
        questions.append(form.format(*pair))
    return questions
