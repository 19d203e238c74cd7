"""Questions whose answers can be checked, in the form of a list that a model continues.

A list is begun with examples of the form ``question answer``, a line each, and the model writes the
next line's end. So a base model can be asked as well as one that was trained to chat.
"""

import re
from typing import NamedTuple

import numpy as np


class Fact(NamedTuple):
    """A question.

    Attributes:
        kind: what it is about, a key of ``KINDS``.
        prompt: the list, up to the answer.
        asked: its last line, for people.
        truth: the answer.
    """

    kind: str
    prompt: str
    asked: str
    truth: str


_CAPITALS = """
Afghanistan Kabul, Albania Tirana, Algeria Algiers, Angola Luanda, Argentina Buenos Aires, Armenia
Yerevan, Australia Canberra, Austria Vienna, Azerbaijan Baku, Bahrain Manama, Bangladesh Dhaka,
Belarus Minsk, Belgium Brussels, Botswana Gaborone, Brazil Brasilia, Bulgaria Sofia, Cambodia Phnom
Penh, Cameroon Yaounde, Canada Ottawa, Chad N'Djamena, Chile Santiago, China Beijing, Colombia
Bogota, Croatia Zagreb, Cuba Havana, Cyprus Nicosia, Denmark Copenhagen, Ecuador Quito, Egypt Cairo,
Eritrea Asmara, Estonia Tallinn, Ethiopia Addis Ababa, Fiji Suva, Finland Helsinki, France Paris,
Gabon Libreville, Georgia Tbilisi, Germany Berlin, Ghana Accra, Greece Athens, Guinea Conakry, Haiti
Port-au-Prince, Honduras Tegucigalpa, Hungary Budapest, Iceland Reykjavik, India New Delhi,
Indonesia Jakarta, Iran Tehran, Iraq Baghdad, Ireland Dublin, Jamaica Kingston, Japan Tokyo, Jordan
Amman, Kenya Nairobi, Kuwait Kuwait City, Laos Vientiane, Latvia Riga, Lebanon Beirut, Liberia
Monrovia, Libya Tripoli, Lithuania Vilnius, Luxembourg Luxembourg, Madagascar Antananarivo, Malawi
Lilongwe, Malaysia Kuala Lumpur, Mali Bamako, Malta Valletta, Mexico Mexico City, Moldova Chisinau,
Mongolia Ulaanbaatar, Morocco Rabat, Mozambique Maputo, Namibia Windhoek, Nepal Kathmandu, Nicaragua
Managua, Niger Niamey, Nigeria Abuja, Norway Oslo, Oman Muscat, Pakistan Islamabad, Panama Panama
City, Paraguay Asuncion, Peru Lima, Philippines Manila, Poland Warsaw, Portugal Lisbon, Qatar Doha,
Romania Bucharest, Rwanda Kigali, Senegal Dakar, Serbia Belgrade, Singapore Singapore, Slovakia
Bratislava, Slovenia Ljubljana, Somalia Mogadishu, Spain Madrid, Sudan Khartoum, Sweden Stockholm,
Switzerland Bern, Syria Damascus, Taiwan Taipei, Thailand Bangkok, Tunisia Tunis, Turkey Ankara,
Uganda Kampala, Ukraine Kyiv, Uruguay Montevideo, Venezuela Caracas, Vietnam Hanoi, Zambia Lusaka,
Zimbabwe Harare
"""
_SYMBOLS = """
hydrogen H, helium He, lithium Li, boron B, carbon C, nitrogen N, fluorine F, neon Ne, sodium Na,
magnesium Mg, aluminium Al, silicon Si, phosphorus P, sulfur S, chlorine Cl, argon Ar, potassium K,
calcium Ca, scandium Sc, titanium Ti, vanadium V, chromium Cr, manganese Mn, iron Fe, cobalt Co,
nickel Ni, copper Cu, gallium Ga, germanium Ge, arsenic As, selenium Se, bromine Br, krypton Kr,
rubidium Rb, strontium Sr, yttrium Y, zirconium Zr, niobium Nb, molybdenum Mo, technetium Tc,
ruthenium Ru, rhodium Rh, palladium Pd, cadmium Cd, indium In, tin Sn, antimony Sb, tellurium Te,
iodine I, xenon Xe, caesium Cs, barium Ba, lanthanum La, cerium Ce, neodymium Nd, samarium Sm,
europium Eu, gadolinium Gd, terbium Tb, dysprosium Dy, holmium Ho, erbium Er, thulium Tm, ytterbium
Yb, lutetium Lu, hafnium Hf, tantalum Ta, tungsten W, rhenium Re, osmium Os, iridium Ir, platinum
Pt, mercury Hg, thallium Tl, lead Pb, bismuth Bi, polonium Po, astatine At, radon Rn, francium Fr,
radium Ra, actinium Ac, thorium Th, uranium U, neptunium Np, plutonium Pu
"""
_PLURALS = """
apple s, army armies, baby babies, bag s, ball s, bench es, berry berries, bird s, boat s, body
bodies, book s, boss es, bottle s, boy s, branch es, bridge s, bus es, butterfly butterflies, camera
s, candle s, car s, chair s, cherry cherries, child children, church es, circus es, class es, clock
s, cloud s, coat s, country countries, cow s, crisis crises, cup s, daisy daisies, day s, deer deer,
desk s, diary diaries, dish es, doctor s, door s, dress es, duty duties, egg s, enemy enemies,
engine s, fairy fairies, family families, farm s, ferry ferries, field s, fish fish, flash es,
flower s, fly flies, foot feet, forest s, fork s, friend s, game s, garden s, girl s, glass es,
goose geese, guess es, half halves, hand s, hero es, hill s, hobby hobbies, horse s, house s, island
s, jacket s, joy s, key s, kiss es, kitchen s, knife knives, lady ladies, lamp s, leaf leaves,
library libraries, life lives, lion s, loaf loaves, lunch es, man men, map s, market s, match es,
mirror s, monkey s, month s, moon s, mountain s, mouse mice, nail s, night s, ocean s, orange s, ox
oxen, page s, paper s, party parties, path s, peach es, pencil s, penny pennies, person people,
photo s, piano s, picture s, pilot s, plant s, plate s, pocket s, pony ponies, potato es, puppy
puppies, queen s, radio s, river s, road s, roof s, room s, school s, sheep sheep, shelf shelves,
ship s, shoe s, sky skies, spoon s, spy spies, star s, stitch es, story stories, street s, student
s, table s, teacher s, thief thieves, tomato es, tooth teeth, toy s, tree s, valley s, watch es,
wife wives, window s, wish es, witch es, wolf wolves, woman women
"""
# The examples of each kind, a line each: they are no questions.
KINDS = {
    "sums": "12 + 25 = 37\n41 + 8 = 49\n30 + 33 = 63\n",
    "sequences": "2, 4, 6, 8, then 10\n15, 20, 25, 30, then 35\n7, 8, 9, 10, then 11\n",
    "plurals": "one cat, two cats\none box, two boxes\none city, two cities\n",
    "capitals": "Italy: Rome\nRussia: Moscow\nSaudi Arabia: Riyadh\n",
    "symbols": "gold: Au\noxygen: O\nzinc: Zn\n",
}


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split ``name answer`` at the first blank; no name has one."""
    entries = (" ".join(entry.split()) for entry in text.split(","))
    return [(name, answer) for name, _, answer in (each.partition(" ") for each in entries)]


def _number(kind: str, a: int, b: int) -> tuple[str, str]:
    """Return a question about two numbers, and its answer."""
    if kind == "sums":
        return f"{a} + {b} =", str(a + b)
    step = (1, 2, 5, 10)[b % 4]
    return ", ".join(str(a + step * i) for i in range(4)) + ", then", str(a + 4 * step)


def _numbers(rng: np.random.Generator, n: int, kind: str) -> list[tuple[str, str]]:
    """Return ``n`` different questions about two-digit numbers, none of them an example."""
    asked: dict[str, str] = {}
    while len(asked) < n:
        a, b = rng.integers(10, 100, size=2).tolist()
        line, truth = _number(kind, a, b)
        if line in KINDS[kind]:
            line, truth = _number(kind, a + 1, b)
        asked[line] = truth
    return list(asked.items())


def facts(numbers: int = 330, seed: int = 0) -> list[Fact]:
    """Return all questions, those of a kind side by side.

    Args:
        numbers: how many sums there are, and how many sequences.
        seed: draws them.
    """
    rng = np.random.default_rng(seed)
    plurals = [(one, one + end if end in ("s", "es") else end) for one, end in _pairs(_PLURALS)]
    asked = {
        "sums": _numbers(rng, numbers, "sums"),
        "sequences": _numbers(rng, numbers, "sequences"),
        "plurals": [(f"one {one}, two", two) for one, two in plurals],
        "capitals": [(f"{country}:", city) for country, city in _pairs(_CAPITALS)],
        "symbols": [(f"{element}:", symbol) for element, symbol in _pairs(_SYMBOLS)],
    }
    return [
        Fact(kind, KINDS[kind] + line, line, truth)
        for kind, pairs in asked.items()
        for line, truth in pairs
    ]


def answer(text: str) -> str:
    """Return what a completion answers: its first line, up to a comma, a bracket or a full stop."""
    return re.split(r"[\n,(.]", text)[0].strip()
