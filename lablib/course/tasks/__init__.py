"""Three small worlds with exact verifiers: stories, sums and edits, and their tokenizer."""

from lablib.course.tasks import edits, stories, sums
from lablib.course.tasks.problem import Problem, prompt_of
from lablib.course.tasks.tokenizer import load_tokenizer, save_pretrained

TASKS = {"stories": stories, "sums": sums, "edits": edits}

__all__ = [
    "TASKS",
    "Problem",
    "edits",
    "load_tokenizer",
    "prompt_of",
    "save_pretrained",
    "stories",
    "sums",
]
