"""A referee that uses too much is ended, and what that costs."""

import json
import math
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from contextlib import closing
from pathlib import Path

from lablib.teach import handed_in as handed_in_
from lablib.teach.apart import desk, remote, usage
from lablib.teach.apart.desk import CELLS, READING, Order, judge
from lablib.teach.apart.remote import Limits
from lablib.teach.grade import grade
from lablib.teach.handed_in import LARGEST, digest

import psutil
import pytest
import submitted

pytestmark = pytest.mark.thorough


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
    monkeypatch.setattr(desk, "LIBRARIES", 0)
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


def test_who_finds_no_room_waits_until_nothing_else_is_judged(tmp_path, monkeypatch):
    """Another student's process may have taken all there is: that costs nobody a mark."""
    at_work, tries = set(), []
    begin, look = desk.Referee.begin, desk.Referee.look

    def begun(self, order):
        at_work.add(order.name)
        tries.append((order.name, len(at_work)))
        begin(self, order)

    def looked(self):
        if self.order.name == "bob.py" and len(at_work) > 1:
            at_work.remove("bob.py")
            raise desk.Short("no processes")
        verdict = look(self)
        if verdict is not None:
            at_work.remove(self.order.name)
        return verdict

    monkeypatch.setattr(desk.Referee, "begin", begun)
    monkeypatch.setattr(desk.Referee, "look", looked)
    names = ("ada", "bob", "cy", "dan")
    found = verdicts(handed_in(tmp_path, names), workers=2)
    assert found == {f"{name}.py": {"00.1": ["✓", "", ""]} for name in names}
    assert [count for name, count in tries if name == "bob.py"] == [2, 1]


def test_where_there_is_no_room_at_all_that_is_said_and_what_is_judged_is_kept(
    tmp_path, monkeypatch
):
    school = tmp_path / "school"
    school.mkdir()
    handed_in(school, ("ada", "bob", "cy"))
    look = desk.Referee.look

    def looked(self):
        if self.order.name == "bob.py":
            raise desk.Short("no disk")
        return look(self)

    with monkeypatch.context() as patch:
        patch.setattr(desk.Referee, "look", looked)
        with pytest.raises(OSError, match="no disk"):
            grade(school, tmp_path / "r.csv", workers=1)
    assert "ada" in (tmp_path / "r.csv").read_text()
    assert "bob" not in (tmp_path / "r.csv").read_text()
    report = grade(school, tmp_path / "r.csv", resume=True)
    assert {row.student for row in report.rows if row.outcome == "✓"} == {"ada", "bob", "cy"}


def test_a_container_with_few_processes_has_fewer_workers(tmp_path, monkeypatch):
    """Else one student's threads take those that another one's libraries need."""
    monkeypatch.setattr(usage, "_left", lambda group: 250)
    monkeypatch.setattr(usage.Path, "read_text", lambda path: "8:pids:/a/b\n1:cpu:/\n0::/c\n")
    assert usage.room() == 250
    monkeypatch.undo()
    (tmp_path / "pids.current").write_text("12\n")
    for most, left in (("512\n", 500), ("max\n", math.inf)):
        (tmp_path / "pids.max").write_text(most)
        assert usage._left(tmp_path) == left
    assert usage._left(tmp_path / "none") == math.inf
    for left, workers in ((250, 3), (10, 1), (math.inf, 5)):
        monkeypatch.setattr(usage, "room", lambda left=left: left)
        assert desk._at_once(5) == workers


@pytest.mark.parametrize("room", ["disk", "processes"])
def test_a_process_that_cannot_be_started_is_no_fault_of_a_students(room, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    names = {"disk": (remote.tempfile, "mkdtemp"), "processes": (remote.subprocess, "Popen")}
    monkeypatch.setattr(*names[room], full)
    with pytest.raises(remote.NotStarted, match="No space left"):
        remote.Process(Limits())


def test_a_process_that_ends_before_a_students_work_is_no_fault_of_theirs(monkeypatch):
    monkeypatch.setattr(remote.sandbox, "command", lambda order: ["false"])
    with pytest.raises(remote.NotStarted, match="exit code 1"):
        remote.Process(Limits())


@pytest.mark.skipif(not Path("/proc/self/ns/user").exists(), reason="Linux' walls")
def test_no_work_runs_without_a_wall_that_stood_before(tmp_path):
    """Namespaces are short by then; so may memory be, or processes."""
    code = "from pathlib import Path\nfrom lablib.teach.apart.remote import *\n"
    code += "limits = Limits(missing=tuple(not_kept_out()))\n"
    code += "Path('/proc/sys/user/max_user_namespaces').write_text('0')\n"
    code += "try:\n    Process(limits)\nexcept NotStarted as error:\n    print(error)"
    if subprocess.run(["unshare", "-Ur", "true"]).returncode:
        pytest.skip("no user namespaces here")
    command = ["unshare", "-Ur", sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "a student's work would not be kept from the network and other files of yours" in said


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere psutil asks all processes")
def test_a_look_at_a_students_process_asks_no_other_one(monkeypatch):
    """It is made in an exercise's time, ten times a second, and a machine may have thousands."""
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as process:
        until = time.monotonic() + 10
        monkeypatch.setattr(psutil, "pids", None)
        monkeypatch.setattr(psutil.Process, "children", None)
        while len(usage.family(process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        found = usage.family(process.pid)
        for each in found[::-1]:
            each.kill()
    assert [each.pid == process.pid for each in found] == [True, False]
    assert usage.family(process.pid) == []


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_process_may_end_while_it_is_looked_at(error, monkeypatch):
    """Its referee ended, too, and all that was not judged by then was lost with it."""

    def ending(look):
        def looked(folder="."):
            if str(folder).endswith("/task"):
                raise error
            return look(folder)

        return looked

    monkeypatch.setattr(os, "listdir", ending(os.listdir))
    monkeypatch.setattr(os, "scandir", ending(os.scandir))
    assert usage.family(os.getpid())[0].pid == os.getpid()


# 50 MB of short lines, one of them with a letter for which Python takes four bytes for each.
PRINTED = ["1\n"] * 3_700_000 + ["\N{SNAKE}"]


def test_a_notebook_of_outputs_is_read_without_them(tmp_path, monkeypatch):
    held, usage_of = [], desk.Referee._usage

    def noted(self):
        used = usage_of(self)
        held.append(used[1])
        return used

    monkeypatch.setattr(desk.Referee, "_usage", noted)
    notebook = submitted.answered("00", {})
    drawn = {"image/png": "A" * 1_000_000}
    notebook["cells"][0]["source"] += "\N{SNAKE}"
    printed = {"output_type": "stream", "name": "stdout", "text": PRINTED}
    for cell, output in zip(notebook["cells"][-3:], (printed, {"data": drawn}, {}), strict=True):
        cell["outputs"] = [output]
    path = tmp_path / "ada.ipynb"
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1), encoding="utf-8")
    assert 45 * 2**20 < path.stat().st_size < LARGEST
    (verdict,) = verdicts([Order(path=str(path), name="ada")]).values()
    assert [mark for mark, *_ in verdict.values()] == ["✓"] * 3
    assert max(held) - held[0] < 300 * 2**20


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"outputs": [1, "]", {"a": [2]}], "b": 3}', '{"outputs": [], "b": 3}'),
        ('{"widgets" : {"a\\"]}": {"outputs": [1]}}}', '{"widgets" : {}}'),
        ('{"a": "\\"outputs\\": [1]"}', '{"a": "\\"outputs\\": [1]"}'),
        ('{"outputs": "[", "attachments": {"a": 1}}', '{"outputs": "[", "attachments": {}}'),
        ('{"outputs": [1, "]', '{"outputs": ['),
    ],
)
def test_what_is_not_read_is_cut_as_json_is(text, kept, monkeypatch):
    monkeypatch.setattr(handed_in_, "SHORT", 0)
    assert handed_in_._without_unread(text.encode()).decode() == kept


def test_many_short_outputs_take_no_memory_of_their_own():
    data = b'{"cells": [{%s"source": ""}]}' % (100_000 * b'"outputs":[],')
    tracemalloc.start()
    try:
        assert handed_in_._without_unread(data) == data
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()


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


def test_what_is_judged_already_is_kept_whoever_has_used_up_their_time(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "SLOW", 0.0)
    orders = handed_in(tmp_path, ("mal1", "mal2", "mal3"))
    for order in orders:
        order.whose = "mal"
    orders[1].known = same = digest(Path(orders[1].path))
    orders[2].known = "of what it was before"
    found = verdicts(orders)
    assert found["mal2.py"] == {"same": same}
    why = "is not judged: their other files took more than 0 s"
    assert found["mal3.py"] == {"unreadable": why}
    assert orders[2].digest == ""  # so that the next run judges it: it is about other files


def test_a_name_in_a_folder_of_ones_own_uses_up_nobody_elses_time(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "SLOW", 0.0)
    texts = {"x7/ada_00.py": "", "x7/00_ada.py": "", "x9/ada.py": submitted.RIGHT}
    texts |= {"x7/bob.py": "", "x9/bob.py": ""}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"import numpy as np\n{text}\ncheck('00.1', best_token)\n")
    (tmp_path / "roster.csv").write_text("student\nada\nbob\n")
    report = grade(tmp_path, roster=tmp_path / "roster.csv", workers=1)
    assert not report.strangers
    assert [row.notebook for row in report.rows if row.outcome == "✓"] == ["x9/ada.py"]
