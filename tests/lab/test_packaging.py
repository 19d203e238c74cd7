"""The doors lead to the same place: pyproject.toml, environment.yml, the README's commands."""

import json
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import lablib

import pytest
import versions
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from standalone import example

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
README = (ROOT / "README.md").read_text()


def conda_pip_lines() -> list[str]:
    return re.findall(r"^ {6}- (.+)$", (ROOT / "environment.yml").read_text(), re.MULTILINE)


def test_what_no_diff_can_show_takes_at_most_20_megabytes() -> None:
    """Weights, data and pictures that git tracks; a file is binary where it has a zero byte."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no clone")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    contents = {file: file.read_bytes() for file in files if file.is_file()}
    binary = {str(file): len(data) for file, data in contents.items() if b"\0" in data[:8000]}
    print(f"{sum(binary.values()) / 1e6:.2f} MB in {len(binary)} files")
    assert any(name.endswith(".gif") for name in binary)
    assert sum(binary.values()) <= 20e6, binary


def test_environment_yml_equals_pyproject() -> None:
    *lines, last = conda_pip_lines()
    assert last == "-e .[lab]"
    assert lines[:2] == EXTRAS["lab"][:2]  # mlx and mlx-lm, as the lessons were recorded
    assert lines[2:] == PROJECT["dependencies"][2:] + EXTRAS["lab"][2:]


def test_who_grades_with_nbgrader_can_run_a_lesson() -> None:
    assert "lablib[lab]" in EXTRAS["teach"]


@pytest.mark.parametrize("command", ["editable_wheel", "bdist_wheel"])
def test_a_clone_is_installed_as_a_path_and_a_wheel_has_the_lessons(command, monkeypatch) -> None:
    """A path is found even above the clone, where its folder would hide what a finder finds."""
    setuptools = pytest.importorskip("setuptools")
    told: dict = {}
    monkeypatch.setattr(setuptools, "setup", lambda **wanted: told.update(wanted))
    # The environment's own setuptools may be older than what pyproject.toml builds with.
    newer = SimpleNamespace(bdist_wheel=object)
    monkeypatch.setitem(sys.modules, "setuptools.command.bdist_wheel", newer)
    monkeypatch.setattr("sys.argv", ["setup.py", command])
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    if command == "editable_wheel":  # what setuptools wants of a project that a path will do for
        assert told["package_dir"] == {"": "."}
        assert all(Path(*name.split(".")).is_dir() for name in told["packages"])
    else:
        assert told["package_dir"] == {"lablib.notebooks": "notebooks"}
        assert "lablib.notebooks" in told["packages"]
    assert {"lablib", "lablib.teach"} <= {*told["packages"]}


def test_the_lessons_pin_mlx_and_mlx_lm_within_the_ranges_of_the_library() -> None:
    """A project that has another mlx-lm can have lablib, too; recordings are of one pair."""
    plain, lessons = (map(Requirement, lines) for lines in (PROJECT["dependencies"], EXTRAS["lab"]))
    ranges = {each.name: each.specifier for each in plain}
    assert not any("==" in str(allowed) for allowed in ranges.values())
    pins = {each.name: str(each.specifier) for each in lessons if "==" in str(each.specifier)}
    assert [*pins] == ["mlx", "mlx-lm"]
    assert all(pin.removeprefix("==") in ranges[name] for name, pin in pins.items())
    assert not any("==" in line for line in EXTRAS["test"])


def test_the_lowest_pair_is_read_off_the_ranges() -> None:
    low = [Requirement(each) for each in versions.lowest(PROJECT["dependencies"])]
    assert [each.name for each in low] == ["mlx", "mlx-lm"]
    ranges = [Requirement(each).specifier for each in PROJECT["dependencies"][:2]]
    for each, allowed in zip(low, ranges, strict=True):
        assert str(each.specifier).removeprefix("==") in allowed


def test_python_of_environment_yml_is_supported() -> None:
    version = re.search(r"python=(3\.\d+)", (ROOT / "environment.yml").read_text()).group(1)
    low, high = re.findall(r"3\.(\d+)", PROJECT["requires-python"])
    assert int(low) <= int(version.split(".")[1]) < int(high)


def test_the_readme_names_the_pythons_that_pip_accepts_colabs_among_them() -> None:
    """Colab, where README and doctor send people with an older machine, has Python 3.13."""
    low, high = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    assert f"Python 3.{low} to 3.{high - 1}," in README
    assert low <= 13 < high


def test_readme_has_the_two_commands_first() -> None:
    run, test = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)[:2]
    assert run.strip().endswith("python -m lablib")
    assert '".[test]"' in test
    assert test.strip().endswith("python -m pytest -n 2 --dist loadfile --no-loadscope-reorder")


def test_the_readmes_hours_are_the_lessons() -> None:
    """In all, without what may be skipped and with it."""
    least = most = 0
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        first = "".join(json.loads(path.read_text())["cells"][0]["source"])
        (said,) = re.findall(r"\*\*Time\*\* (.*?) ·", first)
        minutes = [int(n) for n in re.findall(r"(\d+)(?= minutes| without)", said)]
        least, most = least + minutes[-1], most + minutes[0]
    hours = dict.fromkeys(f"{minutes / 60:.0f}" for minutes in (least, most))
    assert f"take {' to '.join(hours)} hours" in README


def test_the_changelog_and_the_citation_name_one_version() -> None:
    assert "version" in PROJECT["dynamic"]
    following = re.search(r"^## (\S+),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == following
    assert lablib.__version__ == version("lablib")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with setup.py and what its version is read from; what names its author."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Mia")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "mia@example.org")
        monkeypatch.setenv(f"GIT_{name}_DATE", "2026-03-04T05:06:07+02:00")
    place = tmp_path / "project"
    (place / "lablib" / "machine").mkdir(parents=True)
    for name in ("setup.py", "CHANGELOG.md", ".gitattributes", "lablib/machine/few_rows.py"):
        shutil.copy(ROOT / name, place / name)
    git(place, "init", "-q")
    git(place, "add", ".")
    git(place, "commit", "-qm", "one")
    return place


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=place, check=True, capture_output=True)


def version_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the version that setup.py gives in a folder."""
    setuptools = pytest.importorskip("setuptools")
    given: dict = {}
    monkeypatch.setattr(setuptools, "setup", lambda **wanted: given.update(wanted))
    newer = SimpleNamespace(bdist_wheel=object)
    monkeypatch.setitem(sys.modules, "setuptools.command.bdist_wheel", newer)
    monkeypatch.chdir(place)
    runpy.run_path("setup.py")
    return given["version"]


def forms(project: Path, folder: Path) -> list[Path]:
    """Return a clone, a shallow one and an archive of a repository."""
    folder.mkdir()
    git(folder, "clone", "-q", project, "whole")
    git(folder, "clone", "-q", "--depth", "1", f"file://{project}", "shallow")
    git(project, "archive", "-o", folder / "archive.tar", "HEAD")
    with tarfile.open(folder / "archive.tar") as archive:
        archive.extractall(folder / "archived", filter="data")
    return [folder / name for name in ("whole", "shallow", "archived")]


def test_a_version_grows_with_every_commit_in_clones_shallow_ones_and_archives(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {version_of(each, monkeypatch) for each in forms(project, tmp_path / "before")}
    assert len(before) == 1
    assert re.fullmatch(r"\d+\.\d+\.\d+\.dev20260304030607", *before)
    assert Version(*before) > Version("0.1.0")  # which all wheels were called once
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-03-04T05:06:08+02:00")
    git(project, "commit", "--allow-empty", "-qm", "two")
    after = {version_of(each, monkeypatch) for each in forms(project, tmp_path / "after")}
    assert Version(*after) > Version(*before)


def test_a_version_is_the_tags_in_clones_shallow_ones_and_archives(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(project, "tag", "v9.8.7")
    released = {version_of(each, monkeypatch) for each in forms(project, tmp_path / "clones")}
    assert released == {"9.8.7"}


def test_an_sdist_keeps_its_version_and_a_bare_copy_has_the_lowest(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(project / ".git")
    assert version_of(project, monkeypatch).endswith(".dev0")
    (project / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: lablib\nVersion: 9.8.7\n")
    assert version_of(project, monkeypatch) == "9.8.7"


def test_all_name_one_version_of_what_formats_the_javascript() -> None:
    files = "biome.jsonc", "CONTRIBUTING.md", ".pre-commit-config.yaml"
    named = [re.findall(r"biome[@/]([\d.]+\d)", (ROOT / file).read_text()) for file in files]
    assert all(named)
    assert len({version for found in named for version in found}) == 1
    schema = re.search(r"schemas/([\d.]+)/schema", (ROOT / "biome.jsonc").read_text())[1]
    assert schema == named[0][0]


def test_the_workflow_and_the_classifiers_name_each_python_that_pip_accepts() -> None:
    low, high = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    versions = [f"3.{minor}" for minor in range(low, high)]
    (job,) = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"].values()
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == versions
    whole = re.findall(r"matrix\.(\w+) == '([^']+)'", job["steps"][-1]["env"]["ONE_TIER"])
    assert {name for name, value in whole if value in matrix[name]} == {"os", "python"}
    python = "Programming Language :: Python :: "
    named = [c.removeprefix(python) for c in PROJECT["classifiers"] if c.startswith(python)]
    assert named == versions


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_what_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    files = re.findall(r"(?<![\w/])((?:tests|lablib|notebooks)/[\w/]+\.\w+)", text)
    for target in files:
        if not re.search("NN", target):
            assert (ROOT / target).exists(), target


def test_every_lesson_is_on_the_readme_map() -> None:
    for lesson in (ROOT / "notebooks").glob("[0-9]*.ipynb"):
        assert f"notebooks/{lesson.name}" in README, lesson.name


def test_the_readmes_example_prints_what_stands_below_it(capsys) -> None:
    exec(example("README.md"), names := {})
    (said,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert capsys.readouterr().out == said
    assert "and 3 is right" in README
    digits = re.findall(r"\d", names["tokenizer"].decode(names["question"]))
    assert names["votes"].winner == str(sum(map(int, digits)) % 10) == "3"


def test_the_librarys_example_runs(capsys) -> None:
    exec(code := example("docs/library.md"), names := {})
    assert len(names["samples"].tokens) == 64
    assert sum(count for _, count in names["votes"]) == 32
    shown = capsys.readouterr().out
    assert "On" not in shown.split()  # what is streamed is the continuation
    said = r"print\(votes.winner\)  # (\d), which is right .*; at temperature 0 .* ends in (\d)"
    elected, likeliest = re.search(said, code).groups()
    model, tokenizer, prompt = (names[name] for name in ("model", "tokenizer", "prompt"))
    assert elected == names["votes"].winner
    text = lablib.generate(model, tokenizer, prompt, temperature=0.0)
    assert text[-1] == likeliest != elected
    assert 0 < names["stats"]["acceptance_rate"] <= 1
    assert names["after"].shape == (512,)


def test_the_examples_of_your_own_run(tmp_path, monkeypatch, capsys) -> None:
    text = (ROOT / "docs/your-own.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    architecture, experiment = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(architecture, names := {})
    plain = lablib.sample_n(names["model"], [1, 2, 3], 1, max_tokens=5, temperature=0.0)
    assert names["ids"].tolist()[0][3:] == plain[0]
    exec(experiment, again := {})
    assert [unit["problem"] for unit in again["records"]] == [0, 1, 2] * 2
    before = Path("lengths.jsonl").read_bytes()
    exec(experiment, {})
    assert Path("lengths.jsonl").read_bytes() == before


def test_the_readmes_numbers_stand_where_it_says_that_they_were_measured() -> None:
    table = (ROOT / "lablib/models/checkpoints/evaluation.md").read_text("utf-8")
    greedy = table.partition("## Greedy speculation")[2]
    (said,) = re.findall(r"model writes ([\d.]+) tokens", README)
    stories = re.search(r"^\| stories .*", greedy, re.MULTILINE)[0].split("|")
    assert said == f"{float(stories[4]):.1f}"
    beside = README.partition("## Beside others")[2]
    rows = re.findall(r"^\| .* \| ([\d.]+) \| .* \|$", beside, re.MULTILINE)
    assert len(rows) == 4
    benchmarks = (ROOT / "docs/benchmarks.md").read_text("utf-8")
    assert all(f"| {row} |" in benchmarks for row in rows)
    assert "four rules are off by less than 10⁻¹⁵" in README
    assert len(lablib.rules.RULE) == 4
    assert all(lablib.bias(rule) < 1e-15 for rule in lablib.rules.RULE.values())


def test_the_readmes_shares_of_right_votes_are_those_of_the_evaluation() -> None:
    table = (ROOT / "lablib/models/checkpoints/evaluation.md").read_text("utf-8")
    pattern = r"sample is right on (\d+) % of the sums, a vote of 32 on (\d+) %"
    one, vote = re.search(pattern, README).groups()
    columns = re.search(r"^\| strategy .*", table, re.MULTILINE)[0].split("|")
    place = [column.strip() for column in columns].index("32")
    shares = {
        name: re.search(rf"^\| {name} .*", table, re.MULTILINE)[0].split("|")[place]
        for name in ("single", "majority")
    }
    assert {name: round(100 * float(share.split()[0])) for name, share in shares.items()} == {
        "single": int(one), "majority": int(vote),
    }  # fmt: skip
