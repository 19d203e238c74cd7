"""Where no walls can stand, what needs none is tested without: tests of walls are in test_walls."""

from lablib.teach import capstones, grade, walls

for function in (grade.grade, capstones.score_folder):
    function.__kwdefaults__["walls"] = not walls.missing()
