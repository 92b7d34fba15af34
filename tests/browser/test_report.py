"""The report in a real browser: it opens from a file, asks for nothing, fits every screen."""

import os
from pathlib import Path

import pytest

from overlace.model import Overlay
from overlace.planners.tree.baselines import Mst
from overlace.replay.delivery import delivery
from overlace.report.notebook import noun_html
from overlace.report.page import write_report
from overlace.testing import three_publishers
from overlace.trace.plans import read_plan
from overlace.verbs import optimize
from overlace.workloads.square import square
from tests.optimize.asking import options_of
from tests.optimize.test_optimize import NAMES, TABLES, log
from tests.optimize.test_python import CASES
from tests.report.test_page import HOSTILE, run_of_sites
from tests.traces import trace_of

pytestmark = pytest.mark.browser

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}: apt-get install chromium, or set CHROMIUM to its path")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=["plain", "hostile", "alone", "many", "optimized", "mesh", "channels"])
def report(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "optimized":
        trace_of(folder / "trace", log(), NAMES, **TABLES)
        return optimize(str(folder / "trace"), folder / "run", *options_of(placement="anywhere", effort=1)).report
    if request.param in CASES:
        make, given = CASES[request.param]
        make(folder / "trace")
        return optimize(str(folder / "trace"), folder / "run", *options_of(**given)).report
    options = {
        "plain": {},
        "hostile": {"hostile": True},
        "alone": {"plan": False},
        "many": {"regions": 48, "per_region": 2, "clients": 200},
    }
    return write_report(run_of_sites(folder, **options[request.param]))


@pytest.fixture(params=["light", "dark"])
def page(request, browser, report):
    """The open page, with all that it asked for and complained of."""
    context = browser.new_context(color_scheme=request.param)
    page = context.new_page()
    page.asked, page.said = [], []
    page.on("request", lambda asked: page.asked.append(asked.url))
    page.on("console", lambda said: page.said.append(said.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("dialog", lambda dialog: page.said.append(f"dialog: {dialog.message}"))
    page.goto(report.as_uri())
    yield page
    context.close()


def test_it_asks_for_nothing_but_itself_and_does_not_complain(page, report):
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("scrollTo(0, document.scrollingElement.scrollHeight)")
    assert page.asked == [report.as_uri()]
    assert page.said == []
    assert page.title().endswith((": traffic cost", ": report"))


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    sticking = page.evaluate(
        """[...document.querySelectorAll('body *')]
            .filter(e => !e.closest('.scroll, svg, .hidden') && e.getBoundingClientRect().right > innerWidth + 1)
            .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert sticking == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_without_a_sign(page, width):
    """What is wider than its box lies in one that scrolls, with an edge to be seen."""
    page.set_viewport_size({"width": width, "height": 900})
    cut = page.evaluate(
        """[...document.querySelectorAll('body *')].filter(e => {
            const style = getComputedStyle(e);
            return e.clientWidth && e.scrollWidth > e.clientWidth + 1 && style.overflowX !== 'visible'
                && !e.closest('svg, .hidden') && !(e.matches('.scroll') && parseFloat(style.borderRightWidth) >= 1);
        }).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert cut == []


def test_the_first_screen_says_what_to_do(page, report):
    page.set_viewport_size({"width": 1280, "height": 900})
    first = page.locator(".act").first
    box = first.bounding_box()
    assert box["y"] + box["height"] < 300
    if page.locator(".brings").count():
        assert page.locator(".brings").first.bounding_box()["y"] < 400
        assert page.locator(".commands").first.bounding_box()["y"] < 900


def test_without_its_script_the_page_shows_every_step(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    steps = sum(read_plan(path).steps_total for path in (report.parent / "plans").glob("*/plan.json"))
    rows = page.locator(".steps tbody tr")
    assert rows.count() == steps
    assert all(row.is_visible() for row in rows.all())
    assert not any(each.is_visible() for each in page.locator(".find, .slide input").all())
    context.close()


def test_steps_can_be_sorted_and_searched(page):
    rows = page.locator("#plan-0 .steps tbody tr")
    if rows.count() < 2:
        return
    texts = [row.inner_text() for row in rows.all()]
    heads = page.locator("#plan-0 .steps thead th")
    step, saves = heads.nth(0).locator("button"), heads.nth(2).locator("button")
    step.click()
    assert [row.inner_text() for row in rows.all()] == texts
    step.click()
    assert [row.inner_text() for row in rows.all()] == texts[::-1]
    saves.click()
    values = [float(each.get_attribute("value")) for each in rows.locator("td:nth-child(3) data").all()]
    assert len(values) == len(texts)
    assert values == sorted(values)
    assert heads.nth(2).get_attribute("aria-sort") == "ascending"
    word = page.locator("#plan-0 .steps tbody code").last.inner_text().split()[2].strip(":")
    page.locator("#plan-0 .find input").fill(word.upper())
    holding = sum(word.lower() in text.lower() for text in texts)
    assert sum(row.is_visible() for row in rows.all()) == holding > 0
    assert page.locator("#plan-0 .find output").inner_text() == f"{holding} of {len(texts)}"
    page.locator("#plan-0 .find input").fill("no such word")
    assert sum(row.is_visible() for row in rows.all()) == 0
    assert page.said == []


def test_pictures_have_text_alternatives(page, report):
    pictures = page.locator("svg").all()
    assert pictures or report.parent.parent.name.startswith("channels")
    for each in pictures:
        assert each.get_attribute("role") == "img"
        assert len(each.get_attribute("aria-label")) > 20
    assert page.locator("img:not([alt])").count() == 0


def test_names_in_a_picture_do_not_overlap(page):
    overlaps = page.evaluate(
        """[...document.querySelectorAll('svg')].flatMap(svg => {
            const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
            return boxes.flatMap(([a, p], i) => boxes.slice(i + 1)
                .filter(([b, q]) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2
                    && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4)
                .map(([b]) => a + ' | ' + b));
        })"""
    )
    assert overlaps == []


def test_text_stands_out_from_its_ground(page):
    """WCAG AA: 4.5 to 1, for body text, soft text and every heat."""
    worst = page.evaluate(
        """() => {
            const part = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
            const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
            const numbers = text => text.match(/[\\d.]+/g).map(Number);
            const paper = numbers(getComputedStyle(document.body).backgroundColor).slice(0, 3);
            const over = (top, ground) => {
                const a = top.length > 3 ? top[3] : 1;
                return ground.map((v, i) => a * top[i] + (1 - a) * v);
            };
            let worst = [99, ''];
            for (const e of document.querySelectorAll('p, td, th, li, dt, dd, figcaption, .change, .none, pre')) {
                const style = getComputedStyle(e), ground = over(numbers(style.backgroundColor), paper);
                const ink = light(numbers(style.color).slice(0, 3)), back = light(ground);
                const ratio = (Math.max(ink, back) + .05) / (Math.min(ink, back) + .05);
                if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 120)];
            }
            return worst;
        }"""
    )
    assert worst[0] >= 4.5, worst


def test_it_can_be_printed(page, browser):
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 794, "height": 1123})
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert len(page.pdf(format="A4")) > 10_000


def slid_to(page, stop):
    page.locator(".slide input").first.evaluate(
        "(each, stop) => { each.value = stop; each.dispatchEvent(new Event('input')); }", stop
    )


def test_the_slider_changes_the_figures_and_the_list_of_steps(page, report):
    if report.parent.parent.name.startswith("alone") or page.locator(".slide").count() == 0:
        assert "data-stops=" not in report.read_text(encoding="utf-8")
        return
    slide = page.locator(".slide").first
    rows = page.locator(".plan").first.locator(".steps tbody tr")
    said = slide.locator(".stop-text")
    whole = said.inner_text()
    slid_to(page, 1)
    assert said.inner_text() != whole
    judged = page.locator(".plan .stop").count() > 0
    assert said.inner_text().startswith("Measured after 1 of " if judged else "After 1 step: planner's estimate")
    assert slide.locator("input").get_attribute("aria-valuetext") == "1 step"
    assert sum(row.is_visible() for row in rows.all()) == 1
    slid_to(page, 0)
    assert sum(row.is_visible() for row in rows.all()) == 0
    assert page.said == []


def test_the_figures_beside_the_slider_are_those_of_the_plan_file(page, report):
    paths = (report.parent / "plans").glob("*/plan.json")
    judged = next((plan.judged for plan in map(read_plan, paths) if plan.judged and plan.judged.curve), None)
    assert (judged is not None) == (page.locator(".stop").count() > 0)
    if judged is None:
        return
    marks = set()
    for stop, point in enumerate(judged.curve):
        slid_to(page, stop)
        values = page.locator(".stop:visible data")
        seen = [float(each.get_attribute("value")) for each in values.all()]
        assert seen[:2] == [judged.curve[0].metrics["cost"], point.metrics["cost"]]
        assert page.locator(".stop:visible").count() == 1
        marks.add(page.locator(".slide .here_marks path").first.get_attribute("transform"))
    assert len(marks) == len(judged.curve) > 2
    assert page.said == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_notebooks_show_fits_asks_for_nothing_and_leaves_the_notebook_s_own_tables_alone(
    browser, tmp_path, width, scheme
):
    observation, names = square(12, 24, 10, seed=3), {"client": [HOSTILE[0]] * 24}
    nouns = (Mst().solve(observation), observation, observation.overlay, delivery(three_publishers(), Overlay()))
    path = tmp_path / "cell.html"
    cells = "".join(noun_html(noun, names) for noun in nouns)
    path.write_text(f"<!doctype html><meta charset=utf-8><table id=own><td>x</table>{cells}", encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    asked, said = [], []
    page.on("request", lambda each: asked.append(each.url))
    page.on("console", lambda each: said.append(each.text))
    page.on("dialog", lambda each: said.append(each.message))
    page.goto(path.as_uri())
    assert (asked, said) == ([path.as_uri()], [])
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.locator(".overlace").count() == len(nouns)
    assert page.locator(".overlace svg").count() == 3
    collapse = "each => getComputedStyle(each).borderCollapse"
    assert page.locator("#own").evaluate(collapse) == "separate"
    assert page.locator(".overlace table").first.evaluate(collapse) == "collapse"
    context.close()
