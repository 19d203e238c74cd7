"""Questions to a chat model, put together from forms and topics: as many as one wants, none copied.

What a model answers is its own text; the questions only have to be varied. Topics are split in two
by name, so that a model trained on answers about some can be tried on the others.
"""

from typing import NamedTuple

import numpy as np


class _Kind(NamedTuple):
    """Topics of one kind, with commas between them, and forms, a line each.

    Some of ``topics`` are never mentioned in training; all of ``more`` may be.
    """

    topics: str
    forms: str
    more: str


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
        """
        accordions, airports, algae, alphabets, ambulances, antelopes, ants, apricots, aquariums,
        architecture, arrows, asteroids, atoms, avalanches, avocados, axes, bakeries, ballet,
        balloons, bamboo, bananas, banks, barley, basketball, baskets, bats, beaches, beans, bears,
        beavers, beds, beer, bells, belts, berries, blankets, blood, boats, bones, books, boots,
        bottles, bowls, boxes, brains, branches, brass, bricks, brooms, brushes, buffaloes, buses,
        butterflies, buttons, cabbage, cactuses, cakes, calendars, camels, canals, canoes, caravans,
        carbon, carnivals, carpets, carrots, cars, castles, caterpillars, caves, cellos, cells,
        cement, ceramics, chairs, chalk, cheetahs, cherries, chickens, chillies, chimneys, cinema,
        cinnamon, circles, circuses, cities, clay, cliffs, climate, clothes, coal, coasts, coconuts,
        coins, colours, compasses, concerts, concrete, constellations, continents, corn, costumes,
        cows, crabs, cranes, crickets, crocodiles, crowns, crystals, cucumbers, cups, currents,
        curtains, dams, dates, deer, dentistry, dictionaries, dinosaurs, dolls, dolphins, donkeys,
        doors, dragonflies, dragons, ducks, dust, eagles, ears, eclipses, ecology, economics, eels,
        elephants, embroidery, emeralds, energy, envelopes, evolution, eyes, fables, fairy tales,
        falcons, families, farms, fashion, feathers, fences, ferns, ferries, festivals, figs, films,
        fireworks, fish, flags, flames, floods, flour, flutes, football, footprints, forks,
        fountains, foxes, frogs, frost, fruit, fungi, furniture, galaxies, games, garlic, genes,
        geology, geometry, geysers, ghosts, ginger, giraffes, gloves, glue, goats, goldfish,
        gorillas, grammar, grapes, grass, grasshoppers, graves, habits, hair, hammers, hammocks,
        harbours, harps, hats, hearts, hedgehogs, helicopters, herbs, herons, hills, hippos,
        hospitals, hotels, houses, hydrogen, icebergs, inventions, iron, ivory, jackets, jam,
        jellyfish, jewellery, jigsaws, jokes, journeys, juice, jungles, kangaroos, keys, knives,
        knots, koalas, lamps, languages, lanterns, lava, lavender, lawns, laws, leather, legends,
        lenses, letters, lettuce, lichens, lighthouses, lilies, lions, lizards, lobsters, locks,
        lungs, machines, mammals, mango trees, marathons, masks, matches, mathematics, meadows,
        mechanics, medicine, melons, metals, microscopes, migration, mills, minerals, mines, mint,
        molecules, monasteries, monkeys, monsters, moths, motors, mud, mummies, myths, nails, names,
        navigation, needles, nests, nets, nettles, neurons, nitrogen, novels, nuts, oak trees, oats,
        octopuses, oil, onions, opera, oranges, orchards, orchestras, orchids, ostriches, otters,
        ovens, oysters, palaces, pandas, parachutes, parks, parrots, pasta, peaches, peacocks,
        pearls, pears, peas, pebbles, pencils, pepper, perfume, philosophy, physics, pigeons, pigs,
        pillows, pine trees, pipes, pirates, pizza, plastic, plates, playgrounds, plums, poems,
        poisons, police, pollen, ponds, ponies, poppies, porcelain, ports, postcards, prairies,
        printing, proverbs, psychology, pumpkins, pumps, puppets, quartz, quilts, rabbits, radios,
        rafts, railways, rats, ravens, recipes, reefs, refrigerators, reptiles, restaurants, rhinos,
        ribbons, riddles, rings, roads, roofs, roses, rubber, rubies, rules, sails, salads, salmon,
        sandwiches, saxophones, scales, scarves, scissors, scorpions, sculptures, seagulls,
        seahorses, seals, seasons, seaweed, sheep, shells, shops, skateboards, skeletons, skin,
        skyscrapers, sledges, sleep, sloths, smoke, snails, snakes, soccer, socks, soup, space
        stations, sparrows, spices, spinach, sponges, spoons, sports, squirrels, stairs, stamps,
        starfish, statistics, statues, steel, stomachs, stoves, strawberries, streets, submarines,
        suitcases, sunflowers, sunrise, sunscreen, supermarkets, surfing, swords, tables, tailors,
        tattoos, taxes, taxis, telephones, television, temples, tennis, tents, termites,
        thermometers, tigers, tiles, tin, tongues, tornadoes, towels, towers, tractors, traffic,
        translation, treasure, triangles, trumpets, tulips, turbines, turkeys, typewriters,
        universities, uranium, valleys, vanilla, vegetables, velvet, villages, vinegar, viruses,
        vitamins, vultures, wages, walls, walnuts, watches, water, weddings, weeds, wells, whistles,
        willows, windmills, windows, wine, wings, wires, witches, woodpeckers, words, worms,
        wrestling, yoghurt, zebras, zoos
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
        """
        archery, babysitting, backpacking, beekeeping, bird watching, blogging, bowling, boxing,
        brewing coffee, building a shed, buying a used car, calligraphy, canoeing, carpentry,
        changing jobs, climbing, collecting stamps, composing songs, composting, cutting hair,
        debating, decorating a room, diving, doing homework, drawing portraits, driving a lorry,
        editing videos, exercising at home, feeding birds, film making, finding a job, fixing a tap,
        flying a kite, folding paper, giving a speech, golf, grilling, hosting guests, ice skating,
        ironing shirts, jogging, juggling, kayaking, keeping a budget, keeping bees, leading a team,
        learning to type, listening, making candles, making cheese, making jam, making soup,
        managing stress, meditating, memorising names, mending clothes, mountain biking, packing a
        suitcase, painting a wall, paying off debts, pitching a tent, planning a wedding, planting
        trees, playing chess, playing football, playing the drums, playing the guitar, practising
        yoga, preparing for an exam, programming, public transport, quitting smoking, raising
        chickens, recycling, remembering dates, renting a flat, restoring furniture, riding a horse,
        rowing, saving water, sculpting, selling a car, setting goals, sewing, shopping for food,
        skateboarding, sleeping better, solving a crossword, starting a business, surfing, taking
        notes, talking to strangers, teaching children, training a puppy, translating, visiting a
        museum, volunteering, weaving, wood carving, working in a team, writing a letter, writing a
        novel, writing a poem
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
        """
        Albania, Algeria, Amsterdam, Athens, Australia, Bangladesh, Barcelona, Beijing, Belgium,
        Bolivia, Boston, Brussels, Budapest, Buenos Aires, Bulgaria, Cambodia, Chicago, Colombia,
        Copenhagen, Costa Rica, Croatia, Cuba, Cyprus, Dublin, Ecuador, Edinburgh, Estonia,
        Ethiopia, Florence, Georgia, Ghana, Guatemala, Hong Kong, Hungary, Indonesia, Iran, Israel,
        Istanbul, Italy, Jamaica, Jerusalem, Jordan, Latvia, Lebanon, Lisbon, Lithuania, Los
        Angeles, Luxembourg, Madagascar, Madrid, Malaysia, Malta, Melbourne, Milan, Mongolia,
        Montreal, Moscow, Mumbai, Munich, Nairobi, Namibia, Naples, New Zealand, Nigeria, Oslo,
        Pakistan, Panama, Prague, Romania, Russia, San Francisco, Scotland, Seattle, Senegal, Seoul,
        Serbia, Shanghai, Singapore, Slovakia, Slovenia, South Africa, South Korea, Sri Lanka,
        Stockholm, Tanzania, the Netherlands, the Philippines, Toronto, Tunisia, Uganda, Ukraine,
        Uruguay, Vancouver, Venice, Vienna, Wales, Warsaw, Washington, Zambia, Zurich
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
        """
        a babysitter, a banker, a barber, a beekeeper, a blacksmith, a butcher, a captain, a chef, a
        child, a clown, a coach, a composer, a cook, a cousin, a cyclist, a dancer, a designer, a
        father, a florist, a friend, a goldsmith, a grandfather, a guide, a hairdresser, a hunter, a
        knight, a lawyer, a locksmith, a magician, a mayor, a mechanic, a midwife, a miner, a monk,
        a mother, a parent, a pharmacist, a philosopher, a photographer, a pirate, a plumber, a
        poet, a police officer, a politician, a postman, a prince, a princess, a prisoner, a
        professor, a referee, a robot, a runner, a sculptor, a secretary, a shepherd, a singer, a
        sister, a spy, a surgeon, a swimmer, a tailor, a taxi driver, a thief, a toddler, a
        translator, a traveller, a vet, a watchmaker, a witch, a wizard, a writer, a zookeeper, an
        accountant, an actor, an architect, an artist, an astronaut, an athlete, an author, an
        editor, an electrician, an engineer, an explorer, an inventor, an uncle
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
        """
        asks for a name and says hello, checks if a word is a palindrome, computes a tip in a
        restaurant, computes compound interest, computes the area of a circle, computes the day of
        the week, computes the median of a list, computes the power of a number, converts a number
        to binary, converts Celsius to Fahrenheit, converts minutes to hours, counts down from ten,
        counts how often each letter occurs, counts the lines of a file, draws a triangle of
        asterisks, finds all divisors of a number, finds common elements of two lists, finds the
        distance between two points, finds the longest word of a text, finds the second largest
        number of a list, finds the smallest number of a list, joins two lists, keeps a list of
        tasks, makes a password, merges two dictionaries, multiplies two matrices, plays a guessing
        game, prints the even numbers up to a hundred, prints the Fibonacci numbers, removes the
        spaces of a text, replaces a word of a text, rolls two dice, rounds a number, shuffles a
        list, sorts words by their length, splits a sentence into words, sums the digits of a
        number, swaps two variables, tells if a year is a leap year, writes a text to a file
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
        """
        ambition, art, balance, belief, bravery, care, change, charity, childhood, cleverness,
        comfort, communication, community, compassion, confidence, conflict, conscience,
        cooperation, creativity, cruelty, debt, desire, dignity, diligence, discipline, discovery,
        doubt, duty, empathy, envy, equality, ethics, evil, experience, failure, fairness, faith,
        fame, fashion, fate, forgiveness, generosity, goodness, gossip, gratitude, greed, grief,
        growth, guilt, habit, harmony, home, homesickness, humility, humour, idleness, imagination,
        independence, innocence, inspiration, instinct, intelligence, jealousy, joy, knowledge,
        laughter, law, laziness, leadership, leisure, logic, loneliness, loyalty, mercy, modesty,
        motivation, mystery, obedience, optimism, order, pain, passion, peace of mind, perfection,
        politeness, politics, poverty, power, prejudice, pride, privacy, punctuality, reason,
        regret, religion, respect, responsibility, revenge, risk, romance, routine, sadness, safety,
        science, self-respect, shame, silence, sincerity, solitude, sorrow, style, talent, taste,
        teamwork, temptation, tolerance, tradition, tragedy, truth, unity, violence, virtue, war,
        wealth, will, wisdom, wonder, youth
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
    chosen = [topic for i, topic in enumerate(topics) if (i % 8 == 0) == unseen]
    return chosen if unseen else chosen + [" ".join(t.split()) for t in kind.more.split(",")]


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
