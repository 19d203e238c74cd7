"""Writing jobs for a chat model, of five kinds: code, lists, prose, chat, and copies with a change.

The kinds differ in what a drafter finds: a copy stands in the prompt, code and lists repeat their
own forms, prose and chat repeat little.
"""

_CODE = """
reverses a text, sorts a list of numbers, counts the vowels of a word, checks if a number is prime,
removes duplicates from a list, reads a file and counts its lines, converts Celsius to Fahrenheit,
finds the largest number of a list
"""
_LISTS = """
animals that live in the sea, things to take on a hike, vegetables, jobs in a hospital, musical
instruments, countries of Europe, things in a kitchen, sports that are played with a ball
"""
_PROSE = """
an old bridge, a lost letter, a winter morning, two sisters on a boat, a clock that stops, a fox in
a garden, a train at night, a house by the sea
"""
_CHAT = """
Why is the sky blue?
How do I sleep better?
What is a good breakfast for a child?
Is it better to run or to swim?
I am nervous before an exam. What can I do?
What is the difference between weather and climate?
How does a bicycle stay upright?
What should I see in Rome?
"""
_COPIES = """
Anna keeps a small garden behind the old mill. Every morning Anna waters the beans.
In spring the river rises, and Anna carries her books to the upper floor of the house.
The teacher asked Anna to read aloud. Anna read slowly, and the class listened.
When it rains, Anna sits by the window and writes down what has grown in her garden.
Anna sold apples at the market until noon, and then Anna walked home along the canal.
The ship left at dawn. Anna stood at the rail and looked back at the lights of the town.
On Sundays Anna repairs old clocks. On Mondays Anna brings them back to their owners.
Nobody had told Anna that the bridge was closed, so Anna took the long way home.
"""


def jobs(each: int = 8) -> list[tuple[str, str]]:
    """Return ``(kind, question)`` pairs: ``each`` of a kind, from 1 to 8, the kinds in turn."""
    asked = {
        "code": [f"Write a Python function that {it}." for it in _split(_CODE)],
        "lists": [f"Make a list of ten {it}." for it in _split(_LISTS)],
        "prose": [f"Write a short story about {it}." for it in _split(_PROSE)],
        "chat": _CHAT.strip().splitlines(),
        "copies": [
            f"Copy this text, but with Clara instead of Anna:\n{it}"
            for it in _COPIES.strip().splitlines()
        ],
    }
    return [(kind, asked[kind][i]) for i in range(each) for kind in asked]


def _split(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(",")]
