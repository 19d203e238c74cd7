"""What a long cell shows while it runs, and that nothing of it stays."""

from lablib.course import watch

import nbformat
import pytest
from nbclient import NotebookClient


def run(*sources):
    """Run cells; return their outputs, and what each message with data held."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook, seen = nbformat.v4.new_notebook(cells=cells), []

    class Client(NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if "display_data" in msg["msg_type"]:
                seen.append(msg["content"]["data"].get("text/plain"))
            return super().process_message(msg, cell, cell_index)

    Client(notebook).execute()
    return [cell.outputs for cell in notebook.cells], seen


SLOW = "import time\nfrom lablib.course import watch\n"
LOOP = "for i in watch(range(4)):\n    time.sleep(0.3)\n"


def test_a_long_loop_counts_and_leaves_nothing_to_compare():
    cells = SLOW, LOOP + LOOP + "print('done')", "print(*watch([3, 1]), sep='')"
    (_, outputs, quick), seen = run(*cells)
    assert seen == [None, "2 of 4", "3 of 4", None, "2 of 4", "3 of 4", None]
    kinds = [(each.output_type, each.get("data"), each.get("text")) for each in outputs]
    assert kinds == [("display_data", {}, None), ("stream", None, "done\n")]
    assert [each.text for each in quick] == ["31\n"]


def test_a_loop_that_ends_early_takes_its_bar_along():
    (_, outputs), seen = run(SLOW, LOOP + "    if i == 2: break")
    assert seen == [None, "2 of 4", None]
    assert [each.data for each in outputs] == [{}]


def test_outside_of_a_notebook_it_is_the_loop():
    assert list(watch("abc")) == ["a", "b", "c"]
    with pytest.raises(TypeError):
        list(watch(3))
