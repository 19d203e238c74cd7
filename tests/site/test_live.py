"""A lesson's picture asks the page's engine: any setting, a reader's own text, from a disk, too."""

import re

import lablib

import pytest
from oracles import browser
from oracles import reader as oracle


@pytest.fixture(params=["disk", "server"])
def tab(request, chrome, site):
    """The lesson's page, all its veils lifted; its console complains of nothing."""
    with oracle.served(site[0]) as address:
        tab = chrome.new_page(viewport=browser.WIDE)
        tab.set_default_timeout(60_000)
        complaints = []
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        base = address if request.param == "server" else f"{site[0].as_uri()}/"
        tab.goto(f"{base}00_start_here.html")
        tab.locator(".lablib-all").click()
        yield tab
        assert complaints == []
        tab.close()


def film(tab, name):
    return tab.locator(".lablib-film").filter(has=tab.get_by_label(name, exact=True))


def caption(film):
    film.and_(film.page.locator("[aria-busy=false]")).wait_for()
    return film.locator("figcaption").inner_text()


def ask(film, text):
    film.get_by_label("A text of your own").fill(text)
    film.get_by_role("button", name="Ask the model").click()


def reset(film, first):
    film.get_by_role("button", name="Reset").click()
    film.locator("figcaption").filter(has_text=first).wait_for()


def answered(film, seconds=60):
    told = film.get_by_role("status").filter(has_text="the model’s own answer")
    told.wait_for(timeout=1000 * seconds)


def test_controls_move_together_without_the_model(tab):
    cuts = film(tab, "top-k (0 is off)")
    assert "2 of 4 words stay" not in caption(cuts)
    cuts.get_by_label("top-p (1 is off)").fill("19")  # 1.0
    cuts.get_by_label("top-k (0 is off)").fill("2")
    cuts.locator("figcaption").filter(has_text="2 of 4 words stay").wait_for()
    cuts.get_by_label("temperature", exact=True).fill("0")
    cuts.locator("figcaption").filter(has_text="1 of 4 words stay").wait_for()
    assert tab.evaluate("lablibLive.lab.models === undefined")  # nothing of the model was brought


def test_a_readers_text_is_cut(tab):
    cuts = film(tab, "top-k (0 is off)")
    first = caption(cuts)
    ask(cuts, "sum 7 3 9 0 4 8:")
    answered(cuts)
    model, tokenizer = lablib.load("target")
    prompt, how = tokenizer.encode("sum 7 3 9 0 4 8:"), {"max_tokens": 1, "top_logprobs": 4}
    with lablib.TokenIterator(model, prompt, **how) as iterator:
        best = [tokenizer.decode([token]) for token, _ in next(iterator).top_logprobs]
    words = cuts.locator("svg text").all_text_contents()
    assert {word.replace(" ", "·") for word in best} <= {*words}
    assert f"of {model.vocab_size} words stay" in caption(cuts)
    cuts.get_by_label("top-k (0 is off)").fill("1")
    cuts.locator("figcaption").filter(has_text="1 of").wait_for()
    reset(cuts, first)


@pytest.mark.grid(lambda tab: tab == "disk", rest="slow")
def test_a_readers_sum_is_voted_on_as_in_python(tab):
    race = film(tab, "samples")
    ask(race, "sum 1 2:")
    race.get_by_role("status").filter(has_text="sum of six digits").wait_for()
    ask(race, "sum 7 3 9 0 4 8:")
    answered(race)
    model, tokenizer = lablib.load("target")
    votes = lablib.majority_vote(
        *(model, tokenizer.encode("sum 7 3 9 0 4 8:")),
        **{"n": 32, "max_tokens": 40, "temperature": 1.0, "seed": 0},
        extract=lablib.on_text(tokenizer, lambda text: text.rpartition("#")[2]),
    )
    count = next(count for _, count in votes)
    said = caption(race)
    right = votes.winner == "1"
    leads = f"{votes.winner}{', the right one,' * right} leads with {count} votes"
    assert said.startswith(f"After 32 samples answer {leads}")
    assert ("; the right answer, 1, has " in said) == (not right)
    assert ("So the vote is wrong" in said) == (not right)
    race.get_by_label("samples", exact=True).fill("0")
    race.locator("figcaption").filter(has_text="No votes yet. The right answer is 1.").wait_for()


def test_a_dart_falls_on_the_models_words(tab):
    dart = film(tab, "dart u")
    first = caption(dart)
    ask(dart, "On a sunny day, Mia finds")
    answered(dart)
    assert caption(dart) != first
    dart.get_by_label("dart u").press("End")
    dart.locator("figcaption").filter(has_text="u = 0.99").wait_for()
    dart.get_by_label("temperature", exact=True).press("End")
    dart.locator("figcaption").filter(has_text="the token is one of the others").wait_for()
    reset(dart, first)


def test_a_readers_text_is_read_place_by_place(tab):
    reading = film(tab, "position")
    position = reading.get_by_label("position", exact=True)
    most = position.get_attribute("max")
    ask(reading, " ".join(["ball"] * 30))
    reading.get_by_role("status").filter(has_text="The text is too long").wait_for()
    ask(reading, "On a sunny day,")
    answered(reading)
    last = int(position.get_attribute("max"))
    assert 2 < last < int(most)
    reading.locator("figcaption").filter(has_text="After your text").wait_for()
    position.press("Home")
    reading.locator("figcaption").filter(has_text="At place 1 of your text").wait_for()
    reading.get_by_label("temperature", exact=True).press("End")
    assert caption(reading).startswith("At place 1 of your text")  # they move together
    reading.get_by_label("text", exact=True).select_option("a sum")
    reading.locator("figcaption").filter(has_text="of a sum").wait_for()
    assert 2 < int(position.get_attribute("max")) < int(most)  # that text is shorter
    reset(reading, "of a story")
    assert position.get_attribute("max") == most


def test_each_text_of_a_reader_is_a_row_of_the_carpet(tab):
    carpet = film(tab, "draft tokens γ").first
    for text in ("sum 7 3 9 0 4 8:", "On a sunny day, Mia finds"):
        ask(carpet, text)
        answered(carpet)
    title = carpet.locator("svg text")
    title.filter(has_text=re.compile("^γ = 4 drafts a round")).wait_for()
    assert carpet.locator("svg .lablib-cell").count() > 80
    carpet.get_by_label("draft tokens γ").press("ArrowRight")
    title.filter(has_text=re.compile("^γ = 6 drafts a round")).wait_for()
    assert caption(carpet).startswith("On your texts: with γ = 5 a round writes ")
    carpet.get_by_role("button", name="Reset").click()
    carpet.locator("figcaption").filter(has_text="On sums: with γ = 4").wait_for()
    carpet.get_by_role("status").filter(has_text="The model knows").wait_for()
    ask(carpet, "sum 1 2 3 4 5 6: 1+2=3;3+3=6;6+4=0;0+5=5;5+6=1;")
    carpet.get_by_role("status").filter(has_text="a whole round may need 9").wait_for()


@pytest.mark.parametrize("tab", ["disk"], indirect=True)
def test_a_readers_dashboard_follows_every_control(tab):
    board = film(tab, "rule")
    ask(board, "sum 7 3 9 0 4 8:")
    answered(board, seconds=300)  # it writes some 110 texts
    said = caption(board)
    assert said.startswith("A round writes ")
    assert " rejection keeps α = " in said
    assert "The engine kept 0." in said
    board.get_by_label("rule").select_option("match")
    board.locator("figcaption").filter(has_text=" match keeps α = ").wait_for()
    board.get_by_label("draft tokens γ").press("ArrowRight")
    board.locator("figcaption").filter(has_not_text="The engine").wait_for()
    board.get_by_label("temperature", exact=True).press("Home")
    board.locator("svg text").filter(has_text="temperature 0, γ").wait_for()
    assert "undefined" not in board.locator("svg").text_content()
    board.get_by_label("seed").fill("-1")
    board.get_by_role("button", name="Ask the model").click()  # the browser refuses it
    assert "the model’s own answer" in board.get_by_role("status").inner_text()
    board.get_by_label("task").select_option("edits")
    board.locator("svg text").filter(has_text="edits, temperature 0, γ").wait_for()


def test_a_question_that_another_one_ends_says_so(tab):
    board, cuts = film(tab, "rule"), film(tab, "top-k (0 is off)")
    ask(board, "sum 7 3 9 0 4 8:")
    board.get_by_role("status").filter(has_text="The target writes").wait_for()
    ask(cuts, "On a sunny day,")
    answered(cuts)
    board.get_by_role("status").filter(has_text="Another question came").wait_for()


def test_a_model_that_does_not_come_is_said_and_can_be_asked_again(chrome, site):
    with oracle.served(site[0]) as address:
        tab = chrome.new_page(viewport=browser.WIDE)
        tab.route("**/target-2.js", lambda route: route.abort())
        tab.goto(f"{address}00_start_here.html")
        tab.locator(".lablib-all").click()
        cuts = film(tab, "top-k (0 is off)")
        ask(cuts, "On a sunny day,")
        cuts.get_by_role("status").filter(has_text="did not come (target-2.js)").wait_for()
        tab.unroute("**/target-2.js")
        ask(cuts, "On a sunny day,")
        answered(cuts)
        tab.close()


def test_on_a_phone_all_of_it_is_in_sight(chrome, site):
    tab = chrome.new_page(viewport={"width": 390, "height": 844})
    tab.goto(f"{site[0].as_uri()}/00_start_here.html")
    tab.locator(".lablib-all").click()
    for form in tab.locator(".lablib-own").all():
        for part in (form.get_by_role("textbox"), form.get_by_role("button")):
            box = part.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
    tab.close()
