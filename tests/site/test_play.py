"""The page with the models, in Chromium, from a disk and from a server."""

import contextlib
import re
import subprocess

import lablib
from lablib.course.tasks import sums
from lablib.tools.site import play
from lablib.tools.site.tasks import tasks

import pytest
from oracles import browser
from oracles import page as engine
from oracles import reader as oracle
from oracles.access import axe_script

MOST_BYTES = 8_000_000  # before the first token
PHONE = {"width": 390, "height": 844}


class Visitor:
    """One who has opened the page; ``complaints`` is what the console said."""

    def __init__(self, chrome, address, link="", ready=True, **context):
        self.context = chrome.new_context(**{"viewport": browser.WIDE, **context})
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)
        self.address, self.torn = address, not ready  # whose downloads stop complains
        if ready:
            self.page.goto(f"{address}#{link}")
            self.page.locator("#play[data-ready]").wait_for()

    def _hear(self, said):
        if said.type in ("error", "warning"):
            self.complaints.append(said.text)

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        self.context.close()
        assert failed or self.torn or self.complaints == []

    def part(self, name):
        return self.page.locator(f'#play [data-part="{name}"]')

    def tab(self, name):
        self.page.get_by_role("tab", name=name).click()

    def go(self):
        self.page.locator(".play-go:visible").click()

    def prints(self):
        """Return what the lines of Python print."""
        return engine.printed(self.part("python").inner_text())

    def said(self, text):
        self.part("status").filter(has_text=text).wait_for()

    def written(self):
        """Return the text of *write* once it is all there, without its prompt."""
        self.said("a second on this device")
        whole = self.part("story").text_content()
        given = self.page.locator(".play-given").first.text_content()
        return whole.removeprefix(given).removesuffix("■")

    def drafted(self):
        """Return the text of *draft* up to the last round."""
        self.said("The text took")
        while self.part("on").is_enabled():
            self.part("on").click()
        tokens = self.part("text").locator("span:not(.play-given)").all_text_contents()
        return "".join(tokens).removesuffix("■")

    def set(self, name, value):
        self.page.locator(f'#play [name="{name}"]').evaluate(
            """(field, value) => {
              field.value = value;
              field.dispatchEvent(new Event('input', {bubbles: true}));
            }""",
            str(value),
        )

    def state(self):
        self.page.wait_for_timeout(300)  # a link is written when nothing moves
        return self.page.evaluate("location.hash")


@pytest.fixture(scope="module")
def disk(site):
    return (site[0] / "play.html").as_uri()


@pytest.fixture(scope="module")
def visitor(chrome, disk):
    """One on a disk, whose page serves several tests."""
    with Visitor(chrome, disk, "seed=3") as visitor:
        yield visitor


@contextlib.contextmanager
def served(chrome, site):
    """A visitor who has not opened the page yet, and the address of the site."""
    with (
        oracle.served(site[0]) as address,
        Visitor(chrome, f"{address}play.html", ready=False) as visitor,
    ):
        yield visitor, address


def test_a_cold_page_from_a_disk_writes_by_itself_what_python_writes(chrome, disk):
    with Visitor(chrome, disk) as visitor:
        text = visitor.written()
        assert len(text) > 20
        assert visitor.state() == "#shown=write"
        assert visitor.prints() == text


@pytest.mark.grid(lambda then: len(then) == 2, rest="slow")
@pytest.mark.parametrize("then", [["run"], ["dice"], ["stop", "run"], ["reset", "run"]])
def test_whoever_presses_while_it_writes_gets_a_whole_text(chrome, disk, then):
    """The first text is cut, and the next one begins at once."""
    with Visitor(chrome, disk, "shown=write&seed=3") as visitor:
        visitor.page.locator(".play-token").nth(2).wait_for()
        assert visitor.part("stop").is_visible()
        for act in then:
            visitor.page.locator(f'[data-do="{act}"]:visible').click()
        assert visitor.written() == visitor.prints()


@pytest.mark.grid(lambda play: play == "draft", rest="slow")
@pytest.mark.parametrize("play", ["write", "draft", "vote"])
def test_another_beginning_ends_what_is_being_written(chrome, disk, play):
    """What came of the old beginning never stands below the new one, nor does a word about it."""
    with Visitor(chrome, disk, f"play={play}&shown={play}&prompt=sum 1 2 3 4 5 6:") as visitor:
        visitor.page.locator('[data-do="prompt"]:visible').first.click()
        visitor.page.wait_for_timeout(1500)
        assert visitor.part("status").inner_text().startswith(("Press", "The models are here"))
        assert not visitor.part("stop").is_visible()
        for part in ("story", "rounds", "votes"):
            shown = visitor.part(part)
            assert not shown.is_visible() or "1 2 3 4 5 6" not in shown.inner_text()
        shown = visitor.page.locator(".play-token, .play-card:visible, .play-count:visible")
        assert shown.count() == 0
        visitor.page.locator('[data-do="run"]:visible').click()
        visitor.said({"write": "a second", "draft": "The text took", "vote": "64 of 64"}[play])


def test_a_beginning_that_is_no_sum_waits_while_one_votes(chrome, disk):
    with Visitor(chrome, disk, "prompt=Ben lost a kite.") as visitor:
        field = visitor.page.locator("[name=prompt]")
        visitor.tab("Vote")
        assert field.input_value().startswith("sum ")
        visitor.tab("Draft")
        assert field.input_value() == "Ben lost a kite."


@pytest.mark.grid(lambda link: "head&rule=coupled" in link, rest="slow")
@pytest.mark.parametrize(
    "link",
    [
        "shown=write&seed=5&temperature=0.7&top_p=0.9",
        "shown=write&seed=9007199254740991&temperature=1.6&min_p=0.1&top_k=12&prompt=It's+%22é%22+5%23",
        "play=draft&shown=draft&seed=4&rule=block&draft_tokens=6",
        "play=draft&shown=draft&seed=4&rule=match&prompt=sum+1+2+3+4+5+6%3A",
        "play=draft&shown=draft&seed=7&rule=coupled&temperature=0.8",
        "play=draft&shown=draft&seed=4&drafter=target-head&rule=block&draft_tokens=6",
        "play=draft&shown=draft&seed=7&drafter=target-head&rule=coupled&temperature=0.8",
    ],
)
def test_a_link_brings_its_text_and_its_lines_give_the_same(chrome, disk, link):
    with Visitor(chrome, disk, link) as visitor:
        text = visitor.drafted() if "draft" in link else visitor.written()
        assert text == visitor.prints()


@pytest.mark.parametrize(("drafter", "name"), [("draft", "small model"), ("target-head", "head")])
def test_it_is_counted_why_a_guess_may_stay(chrome, disk, drafter, name):
    """In the words of each round: how often either comes to it, and what it drew."""
    link = f"play=draft&shown=draft&seed=12&temperature=1.4&drafter={drafter}"
    with Visitor(chrome, disk, link) as visitor:
        visitor.said("The text took")
        refused = 0
        while visitor.part("on").is_enabled():
            visitor.part("on").click()
            why = visitor.part("why").inner_text()
            counted = re.search(
                rf"In ([\d,]+) such places the {name} guesses “(.*)” ([\d,]+) times, and the "
                r"large one writes it ([\d,]+) times\. So \4 of the \3 may stay: those whose "
                r"random number is up to ([\d.]+) %\.",
                why,
            )
            cards = visitor.page.locator(".play-card.is-refused")
            if counted is None:
                assert cards.count() == 0, why
                continue
            places, guessed, wanted = (int(counted[i].replace(",", "")) for i in (1, 3, 4))
            chance, coin = float(counted[5]), float(re.search(r"drew ([\d.]+) % and", why)[1])
            assert abs(100 * wanted / guessed - chance) <= 0.5 + 100 / guessed
            assert ("% and stays" in why) == (coin <= chance)
            refused += cards.count()
            if cards.count():
                assert cards.locator("strong").inner_text() == counted[2]
                small, large = cards.locator(".play-odds span").all_inner_texts()
                for said, times in ((small, guessed), (large, wanted)):
                    share = float(re.search(r"[\d.]+", said)[0])
                    assert abs(share - 100 * times / places) <= 0.5
        assert refused


def test_a_vote_is_pythons_and_its_chains_are_there(chrome, disk):
    prompt = sums.problems(5, 1)[0].prompt
    with Visitor(chrome, disk, f"play=vote&shown=vote&seed=2&prompt={prompt}") as visitor:
        visitor.said("64 of 64")
        counts = visitor.page.locator(".play-count").all_text_contents()
        votes = dict(zip("0123456789", map(int, counts), strict=True))
        lines = visitor.prints()
        winner, rest = re.fullmatch(r"(\d) \[(.*)\]", lines).groups()
        in_order = sorted((n for n in votes.values() if n), reverse=True)
        assert [int(n) for n in rest.split(", ")] == in_order
        assert votes[winner] == in_order[0]
        leader = visitor.page.locator(".is-leader")
        assert leader.locator("strong").inner_text() == winner
        assert visitor.part("chains").locator("li").count() == in_order[0]
        other = min((digit for digit in votes if votes[digit]), key=votes.get)
        visitor.page.locator(".play-bars button").nth(int(other)).click()
        assert visitor.part("chains").locator("li").count() == votes[other]
        assert f"answer={other}" in visitor.state()


@pytest.mark.grid(lambda digits, seed, total, elected: elected == 8, rest="slow")
@pytest.mark.parametrize(
    ("digits", "seed", "total", "elected"), [("739048", 12, 31, 1), ("338823", 2, 27, 8)]
)
def test_a_vote_says_if_it_is_right_and_why_not(chrome, disk, digits, seed, total, elected):
    """Of 1,000 chains of the second sum 506 end in the mistake, and 319 in what is right."""
    link = f"play=vote&shown=vote&seed={seed}&prompt=sum {' '.join(digits)}:"
    with Visitor(chrome, disk, link) as visitor:
        visitor.said("64 of 64 chains are written")
        said = visitor.part("told").inner_text()
        right = elected == total % 10
        assert f"{elected} leads and is {'right' if right else 'wrong'} " in said
        assert f"({'+'.join(digits)}={total})" in said
        counts = [int(n) for n in visitor.page.locator(".play-count").all_text_contents()]
        assert f"{counts[total % 10]} chains are right" in said
        rest = max(n for digit, n in enumerate(counts) if digit != total % 10)
        assert (f"of wrong ones is {rest}." if right else f"{rest} end in {elected}.") in said
        assert ("one mistake more often than it is right" in said) == (not right)
        assert visitor.page.locator(".play-right").inner_text() == f"✓ the sum is {total}"


def test_what_surprised_most_is_looked_at_and_another_seed_writes_anew(chrome, disk):
    with Visitor(chrome, disk) as visitor:
        first = visitor.written()
        told = visitor.page.locator(".play-token").evaluate_all("all => all.map(e => e.title)")
        bits = [float(re.search(r"([\d.]+) bits", each)[1]) for each in told]
        looked = visitor.page.locator(".play-token[aria-current]").get_attribute("title")
        assert looked == told[bits.index(max(bits))]
        visitor.page.get_by_role("button", name="Another seed").click()
        visitor.said("Writing")
        assert visitor.written() != first
        visitor.tab("Vote")
        visitor.said("Press Vote")
        assert visitor.page.get_by_role("button", name="a story").count() == 0


def test_sliders_move_the_chart_at_once(visitor):
    visitor.tab("Write")
    rows = visitor.part("chart").locator("tr")
    rows.first.wait_for()
    visitor.set("top_k", 2)
    assert visitor.part("chart").locator(".is-cut").count() == rows.count() - 2
    assert visitor.part("read-top_k").inner_text() == "2"
    visitor.set("temperature", 0)
    first = [cell.inner_text() for cell in rows.first.locator("td").all()]
    assert first[1] == "100 %"
    assert first[2] != "100 %"
    visitor.page.get_by_role("button", name="Reset").click()
    assert visitor.part("read-temperature").inner_text() == "1"
    assert visitor.part("chart").locator(".is-cut").count() == 0


def test_what_was_drawn_before_a_change_is_said_to_be(visitor):
    """The lines of Python are for what the sliders say now, and so not for what stands there."""
    for name in ("Write", "Draft", "Vote"):
        visitor.tab(name)
        visitor.go()
        done = {"Write": "a second on this device", "Draft": "The text took", "Vote": "64 of 64"}
        visitor.said(done[name])
        visitor.set("top_k", 5)
        visitor.said(f"That was drawn before your change. Press {name}")
        assert "top_k=5" in visitor.part("python").inner_text()
        assert "shown" not in visitor.state()
        visitor.page.get_by_role("button", name="Reset").click()
    visitor.tab("Write")
    visitor.go()
    visitor.page.locator(".play-token").first.wait_for()
    visitor.set("top_k", 5)
    visitor.said("That was drawn before your change. Press Write")
    written = visitor.part("story").text_content()
    visitor.page.wait_for_timeout(300)
    assert visitor.part("story").text_content() == written  # it is not written on
    visitor.page.get_by_role("button", name="Reset").click()


def test_the_chart_shows_the_models_own_chances(visitor):
    visitor.tab("Write")
    model, tokenizer = lablib.load("target")
    visitor.page.get_by_role("button", name="a sum").click()
    visitor.part("after").filter(has_text="sum 8 6").wait_for()
    tokens = tokenizer.encode("sum 8 6 7 5 6 5:")
    chances = {}
    with lablib.TokenIterator(model, tokens, max_tokens=1, top_logprobs=3) as iterator:
        for ident, logprob in next(iterator).top_logprobs:
            chances[tokenizer.decode([ident])] = 2.718281828**logprob
    shown = visitor.part("chart").locator("tr")
    for number, (token, chance) in enumerate(chances.items()):
        assert shown.nth(number).locator("th").inner_text() == token
        said = float(shown.nth(number).locator("td").nth(2).inner_text().split()[0])
        assert abs(said / 100 - chance) < 0.006


def test_what_cannot_be_written_is_said(visitor):
    visitor.tab("Vote")
    visitor.set("prompt", "sum 1 2:")
    visitor.page.get_by_role("button", name="Vote with 64").click()
    visitor.said("sum of six digits")
    visitor.tab("Write")
    visitor.set("prompt", "")
    visitor.go()
    visitor.said("The text box is empty")
    visitor.set("prompt", "9" * 1000)
    visitor.go()
    visitor.said("too long: 1001 tokens of 600")
    visitor.page.get_by_role("button", name="a story").click()


def test_a_wrong_link_is_as_at_the_start(chrome, disk):
    with Visitor(chrome, disk, "play=vote") as visitor:  # its first text is no sum
        assert visitor.page.locator("#play-prompt").input_value() == "sum 8 6 7 5 6 5:"
    with Visitor(chrome, disk, "play=fly&temperature=9&seed=-1&top_k=1.5&rule=none&x=1") as visitor:
        lines = visitor.part("python").inner_text()
        assert "temperature=1.0, seed=12" in lines
        assert visitor.page.locator('[role=tab][aria-selected="true"]').inner_text() == "Write"


def test_the_keyboard_alone_plays(chrome, disk):
    with Visitor(chrome, disk, "seed=3") as visitor:
        press = visitor.page.keyboard.press
        visitor.page.locator("#play-tab-write").focus()
        for key in ("Tab", "Tab", "Tab", "Tab", "Tab", "Enter"):  # text, three beginnings, Write
            press(key)
        visitor.written()
        visitor.page.locator(".play-token[tabindex='0']").focus()
        press("Home")
        press("ArrowRight")
        looked = visitor.page.locator(".play-token").nth(1)
        assert looked.get_attribute("aria-current") == "true"
        chosen = visitor.part("chart").locator("tr[aria-current] th").inner_text()
        assert chosen.removeprefix("·") == f"{looked.text_content()} ◂"
        assert "token=2" in visitor.state()
        visitor.page.locator("#play-tab-write").focus()
        press("ArrowRight")
        assert visitor.page.evaluate("document.activeElement.id") == "play-tab-draft"
        visitor.page.locator(".play-go:visible").focus()
        press("Enter")
        visitor.said("The text took")
        visitor.part("on").focus()
        press("Enter")
        assert visitor.part("number").inner_text().startswith("Round 2 of")
        assert "round=2" in visitor.state()


def test_a_stopped_download_is_said_and_goes_on(chrome, site):
    with served(chrome, site) as (visitor, _):
        asked: list[str] = []
        page = visitor.page
        page.on("request", lambda request: asked.append(request.url))
        page.route("**/target-3.js", lambda route: route.abort())
        page.goto(visitor.address)
        visitor.said("The download stopped (target-3.js)")
        page.unroute("**/target-3.js")
        before = {url for url in asked if "target-3" not in url}
        asked.clear()
        page.get_by_role("button", name="Go on").click()
        assert visitor.written()
        again = [url for url in asked if url in before and "/play/" in url]
        assert again == []  # what came was kept
        assert any("target-3.js" in url for url in asked)


def test_the_head_comes_when_it_shall_guess(chrome, site):
    """By the keyboard; its download may stop, too, and what the small model guessed is gone."""
    with served(chrome, site) as (visitor, _):
        asked: list[str] = []
        page = visitor.page
        page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
        page.goto(f"{visitor.address}#play=draft&shown=draft&seed=4&rule=match")
        by_model = visitor.drafted()
        assert not any("head" in name for name in asked)
        page.route("**/target-head-0.js", lambda route: route.abort())
        page.locator('[name=drafter][value="draft"]').focus()
        page.keyboard.press("ArrowDown")
        visitor.said("The download stopped (target-head-0.js)")
        assert visitor.part("rounds").is_hidden()
        page.keyboard.press("ArrowUp")  # the small model is still there
        assert visitor.drafted() == by_model
        assert page.get_by_role("button", name="Go on").count() == 0
        page.keyboard.press("ArrowDown")
        visitor.said("The download stopped (target-head-0.js)")
        page.unroute("**/target-head-0.js")
        asked.clear()
        page.get_by_role("button", name="Go on").click()
        assert visitor.drafted() == by_model  # under match it is the large model's own text
        assert [name for name in asked if name.endswith(".js")] == ["target-head-0.js"]
        assert page.locator(".play-odds").first.inner_text().startswith("head ")
        assert "drafter=target-head" in visitor.state()
        assert "lablib.load_head" in visitor.part("python").inner_text()
        page.get_by_role("tab", name="Write").click()
        assert "load_head" not in visitor.part("python").inner_text()


def test_eight_megabytes_come_before_the_first_token_and_nothing_from_elsewhere(chrome, site):
    with served(chrome, site) as (visitor, address):
        page, sizes = visitor.page, []
        page.on("request", lambda request: sizes.append(request.url))
        session = visitor.context.new_cdp_session(page)
        session.send("Network.enable")
        taken: list[int] = []
        session.on("Network.loadingFinished", lambda e: taken.append(e["encodedDataLength"]))
        page.goto(visitor.address)
        page.locator(".play-token").first.wait_for()
        assert 7_000_000 < sum(taken) < MOST_BYTES
        assert [url for url in sizes if not url.startswith((address, "blob:", "data:"))] == []


SOLVED = {  # and a known mistake
    "03.2": [
        "const m_ = m * Math.max(...probs); const kept = probs.map(x => x >= m_ ? x : 0);"
        "const all = kept.reduce((a, b) => a + b); return kept.map(x => x / all);",
        "return probs.map(x => x >= m * Math.max(...probs) ? x : 0);",
        "sum",
    ],
    "08.3": [
        "const after = p.map((x, i) => i === draft ? 0 : x);"
        "const all = after.reduce((a, b) => a + b);"
        "return [p[draft], all > 0 ? after.map(x => x / all) : p];",
        "return [1, p];",
        "",
    ],
    "06.1": [
        "const votes = new Map(); for (const a of answers) if (a !== null)"
        " votes.set(a, (votes.get(a) ?? 0) + 1); let best = null, most = 0;"
        " for (const [a, n] of votes) if (n > most) [best, most] = [a, n]; return best;",
        "return [...answers].sort().at(-1);",
        "",
    ],
}


def test_three_exercises_are_judged_as_in_the_notebook(visitor):
    page = visitor.page
    page.locator(".play-try > summary").click()
    choice = page.locator("#play-choice option")
    choice.first.wait_for(state="attached")
    said = page.locator("[data-try=said]")

    def answer(body):
        starter = page.locator("#play-code").input_value()
        head = next(line for line in starter.splitlines() if line.startswith("function"))
        page.locator("#play-code").fill(f"{head.partition('{')[0]}{{{body}}}")
        page.get_by_role("button", name="Check").click()

    assert choice.count() == 3
    for number, (name, (right, wrong, like)) in enumerate(SOLVED.items()):
        page.locator("#play-choice").select_option(index=number)
        page.get_by_role("button", name="Check").click()
        said.filter(has_text="○ It returns nothing yet").wait_for()
        answer(wrong)
        said.filter(has_text=like).wait_for()  # "expected" stands there from the empty answer
        answer(right)
        said.filter(has_text="✓ Right").wait_for()
        assert name in choice.nth(number).inner_text()
    answer("for (;;) {}")
    said.filter(has_text="did not end within").wait_for()
    answer("return (")
    said.filter(has_text="SyntaxError").wait_for()
    page.locator("#play-code").fill("function majorityOf(answers) { return answers[0]; }")
    page.get_by_role("button", name="Check").click()
    said.filter(has_text="✗ there is no function majority").wait_for()


@pytest.mark.parametrize("task", tasks(), ids=lambda task: task["id"])
def test_a_known_mistake_gets_its_own_words(task):
    """Its answers, or those of the first idea that answers the lesson's own cases alike."""
    engine.need()
    answers = [task["right"], *(idea["answers"] for idea in task["wrong"])]
    found, *others = engine.judged(task, answers)
    assert found == {"correct": True}
    own = task["own"]
    for idea, verdict in zip(task["wrong"], others, strict=True):
        assert not verdict["correct"]
        alike = [x["text"] for x in task["wrong"] if x["answers"][:own] == idea["answers"][:own]]
        assert verdict["like"] in alike


@pytest.mark.grid(lambda size, scheme: size is PHONE and scheme == "dark", rest="slow")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [browser.WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_at_rest_and_in_each_play(chrome, disk, scheme, size):
    with Visitor(chrome, disk, "seed=12", viewport=size, color_scheme=scheme) as visitor:
        page = visitor.page
        visitor.part("chart").locator("tr").first.wait_for()
        found = {"rest": complaints(page)}
        for name in ("Write", "Draft", "Vote"):
            page.get_by_role("tab", name=name).click()
            page.locator(".play-go:visible").click()
            shown = page.locator(".play-token, .play-card, .play-chains li")
            shown.locator("visible=true").first.wait_for()
            found[name] = complaints(page)
        assert {where: lines for where, lines in found.items() if lines} == {}
        visitor.complaints.clear()  # of axe, which asks for the style sheets


def complaints(page) -> list[str]:
    """Return what axe finds in the play, and whether the page is wider than its window."""
    page.evaluate(axe_script())
    found = page.evaluate(
        """async () => {
          const found = await axe.run({include: ['#play']}, {resultTypes: ['violations']});
          return found.violations.flatMap(({id, nodes}) =>
            nodes.map(node => `${id}: ${node.html.slice(0, 150)} ${node.failureSummary}`));
        }"""
    )
    wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return found + ([f"{wide} pixels wide in {room}"] if wide > room else [])


def test_it_is_the_first_link_of_the_index_and_has_a_description(site):
    index = (site[0] / "index.html").read_text("utf-8")
    article = index.partition("<article")[2]
    links = [to for to in re.findall(r'<a [^>]*href="([^"]*)"', article) if to[0] != "#"]
    assert links[0] == "play.html"
    text = (site[0] / "play.html").read_text("utf-8")
    for name in ('name="description"', 'property="og:description"'):
        (line,) = [tag for tag in re.findall(r"<meta [^>]*>", text) if name in tag]
        assert play.DESCRIPTION in line


@pytest.mark.parametrize("name", ["play.js", "live.js"])
def test_the_script_is_classic_and_whole(site, name):
    """No module's word is left, which a page from a disk has not, and no name is declared twice."""
    engine.need()
    path = site[0] / play.FOLDER / name
    subprocess.run([engine.node(), "--check", path], check=True)
    script = path.read_text("utf-8")
    assert not re.search(r"^(import|export) ", script, re.M)
    names = re.search(r"^return \{(.*)\};$", script, re.M)[1].split(", ")
    assert {"Tokenizer", "Model", "Writer", "samples", "unpack", "RULE"} <= {*names}


def test_the_lessons_model_is_as_large_as_they_say(site):
    folder = site[0] / play.FOLDER
    files = [file for name in play.NAMES for file in folder.glob(f"{name}-?.js")]
    assert round(sum(file.stat().st_size for file in files) / 1e6) == 7
    assert "some 7 MB" in (site[0] / "_static/site.js").read_text("utf-8")
