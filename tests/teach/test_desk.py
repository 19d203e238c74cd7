"""A referee that uses too much is ended, and what that costs."""

import math
import os
import signal
from contextlib import closing

from lablib.teach.apart import desk
from lablib.teach.apart.desk import CELLS, READING, Order, judge
from lablib.teach.apart.remote import Limits
from lablib.teach.grade import grade

import psutil
import pytest
import submitted


def handed_in(folder, names=("ada",), text=submitted.RIGHT):
    orders = []
    for name in names:
        path = folder / f"{name}.py"
        path.write_text(f"import numpy as np\n{text}\ncheck('00.1', best_token)\n")
        orders.append(Order(path=str(path), name=path.name, only=["00.1"]))
    return orders


def verdicts(orders, workers=1):
    with closing(judge(orders, Limits(), workers)) as found:
        return {order.name: verdict for order, verdict in found}


def test_one_referee_judges_a_class(tmp_path, monkeypatch):
    made, make = [], desk.Referee
    monkeypatch.setattr(desk, "Referee", lambda limits: made.append(make(limits)) or made[-1])
    found = verdicts(handed_in(tmp_path, ("ada", "bob", "cy")))
    assert found == {f"{name}.py": {"00.1": ["✓", "", ""]} for name in ("ada", "bob", "cy")}
    assert len(made) == 1
    assert made[0]._process.returncode is not None


def test_who_takes_too_long_to_be_read_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "READS", 0.0)
    told = "can't be read: it took more than 0 s of processor time"
    assert verdicts(handed_in(tmp_path)) == {"ada.py": {"unreadable": told}}


def test_who_takes_too_much_memory_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "MEMORY", 2**20)
    (verdict,) = verdicts(handed_in(tmp_path)).values()
    assert "it took more than 1 MB of memory" in str(verdict)


def test_a_referee_that_ends_costs_what_it_was_at(tmp_path, monkeypatch):
    """Ended by somebody while an exercise waits: the first time it is judged anew."""
    slow = submitted.RIGHT.replace("    return", "    import time\n    time.sleep(0.2)\n    return")
    (order,) = handed_in(tmp_path, text=slow)
    look, killed = desk.Referee.look, []

    def kill_once(self):
        verdict = look(self)
        if self.at == "00.1" and not killed:
            killed.append(self._process.pid)
            os.kill(killed[0], signal.SIGKILL)
        return verdict

    monkeypatch.setattr(desk.Referee, "look", kill_once)
    assert verdicts([order])["ada.py"] == {
        "00.1": ["!", "", "comparing its answers: its referee ended (exit code -9)"]
    }
    assert len(killed) == 1


def test_a_referee_that_dies_while_it_waits_costs_nobody_anything(tmp_path):
    orders = handed_in(tmp_path, ("ada", "bob", "cy"))
    with closing(judge(orders, Limits(), workers=1)) as verdicts:
        found = []
        for order, verdict in verdicts:
            found.append((order.name, verdict))
            for child in psutil.Process().children():
                child.kill()
                child.wait()
    assert found == [(f"{name}.py", {"00.1": ["✓", "", ""]}) for name in ("ada", "bob", "cy")]


@pytest.mark.parametrize(
    ("struck", "verdict", "over"),
    [
        ([(READING, 0.0)], {"unreadable": "can't be read: why"}, ""),
        ([(CELLS, 0.0)], None, "why"),
        ([("00.1", 1.3)], None, ""),
        ([("00.1", 1.3), ("00.2", 1.3)], None, "why"),
        (
            [("00.1", 1.3), ("00.2", 1.3), ("00.3", 0.0)],
            {"unreadable": "can't be read: why"},
            "why",
        ),
    ],
)
def test_a_submission_wears_out_two_referees_at_most(struck, verdict, over):
    order = Order(path="x", name="x")
    for at, spent in struck:
        last = order.strike(at, "why", spent)
    assert (last, order.over) == (verdict, over)
    assert math.isclose(order.spent, sum(spent for _, spent in struck))


def test_all_files_of_one_student_have_a_limit_of_time(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "SLOW", 0.0)
    orders = handed_in(tmp_path, ("mal1", "mal2", "ada", "bob"))
    for order, whose in zip(orders, ("mal", "mal", "ada", ""), strict=True):
        order.whose = whose
    found = verdicts(orders)
    right = {"00.1": ["✓", "", ""]}
    why = "is not judged: their other files took more than 0 s"
    assert [found[f"{name}.py"] for name in ("mal1", "ada", "bob")] == [right] * 3
    assert found["mal2.py"] == {"unreadable": why}


def test_a_name_in_a_folder_of_ones_own_uses_up_nobody_elses_time(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "SLOW", 0.0)
    texts = {"x7/ada-1.py": "", "x7/ada-2.py": "", "x9/ada.py": submitted.RIGHT}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"import numpy as np\n{text}\ncheck('00.1', best_token)\n")
    (tmp_path / "roster.csv").write_text("student\nada\n")
    report = grade(tmp_path, roster=tmp_path / "roster.csv", workers=1)
    assert [row.notebook for row in report.rows if row.outcome == "✓"] == ["x9/ada.py"]
