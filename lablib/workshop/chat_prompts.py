"""Questions to a chat model, put together from forms and topics: as many as one wants, none copied.

What a model answers is its own text; the questions only have to be varied. Topics are split in two
by name, so that a model trained on answers about some can be tried on the others.
"""

from typing import NamedTuple

import numpy as np


class _Kind(NamedTuple):
    """Topics of one kind, with commas between them, and forms, a line each."""

    topics: str
    forms: str


_KINDS = [
    _Kind(
        """
        apples, bread, bridges, candles, clouds, comets, copper, coral, cotton, deserts, diamonds,
        dreams, drums, earthquakes, echoes, electricity, elevators, fireflies, fog, forests,
        fossils, friendship, gardens, glaciers, glass, gold, gravity, guitars, honey, hurricanes,
        ice, insects, islands, jazz, kites, lakes, leaves, libraries, light, lightning, magnets,
        maps, marble, markets, memory, meteors, milk, mirrors, moonlight, mosquitoes, mountains,
        mushrooms, music, numbers, oceans, olives, owls, oxygen, paint, paper, penguins, pianos,
        planets, pottery, pyramids, rain, rainbows, rice, rivers, robots, rockets, roots, rust,
        salt, sand, satellites, seeds, shadows, sharks, silk, silver, snow, soap, soil, spiders,
        steam, stone, storms, sugar, sunlight, swamps, swans, tea, telescopes, thunder, tides,
        time, toys, trains, trees, tunnels, turtles, umbrellas, violins, volcanoes, waterfalls,
        waves, weather, wheat, wheels, whales, wind, winter, wolves, wood, wool, yeast, algebra,
        astronomy, biology, chemistry, geography, history, poetry, bees, butter, cameras, cats,
        cheese, chocolate, clocks, coffee, computers, dogs, eggs, engines, fire, flowers, horses,
        ink, kitchens, lemons, money, museums, newspapers, potatoes, schools, ships, shoes, stars,
        theatre, tomatoes, vaccines, batteries, bicycles, aeroplanes, bacteria, muscles, teeth
        """,
        """
        What is interesting about {}?
        Explain {} to a child.
        Explain in two sentences why {} matter to people.
        Explain in three sentences where {} come from.
        In one sentence: what would change without {}?
        Write a short story about {}.
        Write three sentences about {}.
        Give me five facts about {}.
        Give me three facts about {}.
        Why do people care about {}?
        How would you describe {} to somebody who has never seen any?
        Write a poem about {}.
        Write a four-line rhyme about {}.
        What are the most common questions about {}?
        Make a list of words that have to do with {}.
        Summarise the history of {} in one paragraph.
        What should a beginner know about {}?
        Compare {} and {}.
        What is the difference between {} and {}?
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
        How do {} work?
        Why are {} important?
        Is it true that {} can be dangerous?
        Can you help me with a question about {}?
        I am writing an essay about {}. Give me an outline.
        Suggest a title for a book about {}.
        What do scientists know about {}?
        Define {} in simple words.
        Where do we meet {} in everyday life?
        Write a headline and one paragraph of news about {}.
        """,
    ),
    _Kind(
        """
        chess, cooking, cycling, dancing, drawing, farming, fishing, hiking, knitting, painting,
        photography, reading, running, sailing, singing, skiing, swimming, teaching, travelling,
        walking, writing, baking, camping, studying, saving money, learning a language, moving to a
        new city, growing vegetables, making friends, playing the piano, speaking in public, keeping
        a diary, cleaning a kitchen, washing clothes, repairing a bicycle, planning a party, looking
        after a dog, driving in winter, buying a house, staying healthy, working from home, losing
        weight, meeting new people, waking up early, solving puzzles, caring for plants
        """,
        """
        Give me three tips for {}.
        Give me five tips for {}.
        How do I get better at {}?
        What do I need for {}?
        What is the best way to start with {}?
        Why do people enjoy {}?
        What are common mistakes in {}?
        Write a short guide to {}.
        Make a plan of a week for {}.
        Is {} good for your health?
        What can go wrong with {}?
        I am afraid of {}. What should I do?
        My child is interested in {}. What do you suggest?
        Write an email that invites a colleague to a talk on {}.
        Explain in two sentences what {} teaches us.
        Which is harder, {} or {}?
        """,
    ),
    _Kind(
        """
        Argentina, Austria, Brazil, Canada, Chile, China, Denmark, Egypt, Finland, France, Germany,
        Greece, Iceland, India, Ireland, Japan, Kenya, Mexico, Morocco, Nepal, Norway, Peru, Poland,
        Portugal, Spain, Sweden, Switzerland, Thailand, Turkey, Vietnam, Paris, London, Rome,
        Berlin, Tokyo, New York, Sydney, Cairo
        """,
        """
        What is {} known for?
        What should I see in {}?
        What do people eat in {}?
        Plan two days in {} for me.
        What is the weather like in {}?
        Tell me something about the history of {}.
        Which language do people speak in {}?
        Write a postcard from {}.
        What is the best time of the year to visit {}?
        Compare life in {} with life in {}.
        Name three famous people from {}.
        """,
    ),
    _Kind(
        """
        a teacher, a nurse, a baker, a farmer, a pilot, a judge, a doctor, a painter, a carpenter, a
        journalist, a fisherman, a soldier, a scientist, a librarian, a waiter, a bus driver, a
        grandmother, a king, a detective, a sailor, a student, a neighbour, a tourist, a dentist, a
        programmer, a musician, a gardener, a firefighter, a queen, a shopkeeper
        """,
        """
        What does {} do all day?
        What is a good present for {}?
        What is a good lunch for {}?
        What makes {} happy?
        Write a joke about {}.
        Write a short story about {} and {}.
        Describe the working day of {}.
        What could I ask {}?
        Write a birthday card for {}.
        What would {} say about the future?
        """,
    ),
    _Kind(
        """
        adds two numbers, reverses a text, counts the words of a text, finds the largest number of a
        list, sorts a list, reads a file, removes duplicates from a list, checks if a number is
        prime, prints the multiplication table, computes the average of a list, turns a text into
        capitals, draws a random card, counts the vowels in a word, converts metres to feet,
        searches a list for a name, computes a factorial
        """,
        """
        Write a Python function that {}.
        How would you write a program that {}?
        Explain step by step how a program {}.
        """,
    ),
    _Kind(
        """
        love, luck, courage, patience, justice, freedom, trust, curiosity, anger, hope, boredom,
        progress, honesty, success, fear, education, democracy, beauty, happiness, work, kindness,
        family, health, nature, culture, peace
        """,
        """
        What is {}?
        What does {} mean to you?
        Why is {} important?
        Give me a quotation about {} and explain it.
        Can there be too much {}?
        Write a paragraph about {}.
        What is the opposite of {}, and why?
        How can parents teach {} to children?
        Is {} more important than {}?
        """,
    ),
]


# Said after a question, half of the time.
_WISHES = """
    Answer in one sentence.
    Answer in two sentences.
    Please be brief.
    Use simple words.
    Answer as a list.
    Use no more than fifty words.
    Begin with the most important point.
    Give an example.
    Answer like a friend.
    Answer like a professor.
    I am ten years old.
    Thank you!
"""


def _topics(kind: _Kind, unseen: bool) -> list[str]:
    topics = sorted(" ".join(topic.split()) for topic in kind.topics.split(","))
    return [topic for i, topic in enumerate(topics) if (i % 8 == 0) == unseen]


def prompts(seed: int, n: int, *, unseen: bool = False) -> list[str]:
    """Return ``n`` questions; with ``unseen`` about the topics that the others never mention.

    All forms are equally frequent, whatever their kind.
    """
    rng = np.random.default_rng([seed, int(unseen)])
    forms = [(line.strip(), kind) for kind in _KINDS for line in kind.forms.strip().splitlines()]
    topics = {id(kind): _topics(kind, unseen) for kind in _KINDS}
    wishes = [line.strip() for line in _WISHES.strip().splitlines()]
    questions = []
    for place in rng.integers(len(forms), size=n):
        form, kind = forms[place]
        question = form.format(*rng.choice(topics[id(kind)], size=2, replace=False))
        questions.append(f"{question} {rng.choice(wishes)}" if rng.random() < 0.5 else question)
    return questions
