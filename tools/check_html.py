#!/usr/bin/env python3
"""Opens report.html of several runs in headless Chromium, and checks what no test of its text can.

The pages: a real run of the model that ships, the same with 60 configurations, with hostile labels and texts, a run without
rows, and one where every case failed. On each: no message in the console, no request but that for the file itself, no violation
that axe finds in light and in dark colours, no page wider than a phone. On the real run also: sorting, filters, columns,
another baseline, the keyboard, the download, dark colours, print. Screenshots at 360, 800 and 1600 pixels in both modes go to
the folder of --output.

usage: tools/check_html.py [--program build/release/assay] [--run FOLDER] [--output FOLDER] [--pictures docs]
It needs Chromium with its driver (Debian: chromium, chromium-driver), and from PyPI selenium and axe-core-python or
axe-selenium-python; it says what it leaves out where they are missing.
"""
import argparse
import base64
import copy
import importlib.util
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTHS = (360, 800, 1600)
MODES = ("light", "dark")
HOSTILE = (
    "</script><script>document.title='broken'</script>",
    "\"><img src=x onerror=\"document.title='broken'\">",
    "\u202etfel-ot-thgir\u2066 \u2028 \u2029 <!-- ]]> &amp; 'quoted'",
    "long " * 2000,
)
problems = []


def problem(page, text):
    problems.append(f"{page}: {text}")
    print(f"  FAILED {text}")


def expect(is_so, page, text):
    if not is_so:
        problem(page, text)


# ---- the runs ----


def many_configurations(results, number=60):
    """The trade-off's rows again and again, each time a little slower."""
    rows = [row for row in results["rows"] if row["scenario"] == "trade-off"]
    results["rows"] = [row for row in results["rows"] if row["scenario"] != "trade-off"]
    pattern = next(c for c in results["comparisons"] if c["scenario"] == "trade-off")
    for i in range(number):
        row = copy.deepcopy(rows[i % len(rows)])
        if i >= len(rows):
            row["label"] = f"{row['label']}, variant {i // len(rows)}"
            results["comparisons"].append({**pattern, "subject": row["label"]})
        for value in row["values"].values():
            if isinstance(value, dict) and value.get("samples"):
                value["samples"] = [sample * (1 + 0.03 * i) for sample in value["samples"]]
                value["value"] *= 1 + 0.03 * i
                value["interval"] = None
        results["rows"].append(row)


def all_failed(results):
    for row in results["rows"]:
        row["status"], row["reason"] = "error", "the worker process was killed: out of memory"
        row["values"] = {}
        row.pop("step_s", None)
        row.pop("samples_from", None)
    for key in ("comparisons", "other_comparisons", "audit", "texts", "findings"):
        results[key] = []
    results["noise"] = None


def without_rows(results):
    all_failed(results)
    results["rows"] = []


def hostile(results):
    results["model"]["id"] = HOSTILE[0]
    renamed = {}
    for i, row in enumerate(row for row in results["rows"] if row["scenario"] == "trade-off"):
        renamed[row["label"]] = HOSTILE[i % len(HOSTILE)] + f" {i}"
        row["label"] = renamed[row["label"]]
    for comparison in results["comparisons"] + results["other_comparisons"]:
        for key in ("subject", "baseline"):
            comparison[key] = renamed.get(comparison[key], comparison[key])
    for i, text in enumerate(results["texts"]):
        text["text"] += HOSTILE[i % len(HOSTILE)]
        text["prompt"] += HOSTILE[(i + 1) % len(HOSTILE)] if text["prompt"] else ""
    results["findings"] = []


def make_pages(arguments, folder):
    """Folders of reports by name, each made by the program."""
    run = pathlib.Path(arguments.run) if arguments.run else folder / "run"
    if not arguments.run:
        command = [arguments.program, "run", "demo", "--budget", "45s", "-o", run]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    results = json.loads((run / "results.json").read_text())
    changes = {"real": None, "sixty": many_configurations, "hostile": hostile, "failed": all_failed, "empty": without_rows}
    pages = {}
    for name, change in changes.items():
        changed = copy.deepcopy(results)
        if change:
            change(changed)
        (folder / f"{name}.json").write_text(json.dumps(changed))
        out = folder / name
        report = [arguments.program, "report", folder / f"{name}.json", "-o", out]
        made = subprocess.run(report, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:
            problem(name, f"assay report failed: {made.stderr.strip()[:300]}")
            continue
        pages[name] = out / "report.html"
    return pages


# ---- the browser ----


class Browser:
    def __init__(self, downloads):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"):
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def resize(self, width, height=900):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, mode, media=""):
        feature = {"name": "prefers-color-scheme", "value": mode}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [feature]})

    def open(self, path):
        self.driver.get(path.as_uri())

    def requests(self):
        """Addresses that were asked for, but files that the page itself made."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith(("blob:", "data:"))]

    def picture(self, path):
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 14000), "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))


def axe_script():
    """The text of axe-core, from whichever package has it; none: nothing is checked by it."""
    for package, place in (("axe_core_python", "axe.min.js"), ("axe_selenium_python", "node_modules/axe-core/axe.min.js")):
        spec = importlib.util.find_spec(package)
        if spec and (script := pathlib.Path(spec.origin).parent / place).exists():
            return script.read_text()
    return None


def violations(browser, axe):
    browser.run(axe)
    found = browser.driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations), (e) => "
        "done([{id: String(e), nodes: []}]));"
    )
    return [f"axe: {v['id']}: {len(v['nodes'])} x {v['nodes'][0]['html'][:160] if v['nodes'] else ''}" for v in found]


# ---- the checks ----


def check_page(browser, name, path, axe, output):
    """What holds for every page."""
    text = path.read_text(encoding="utf-8")
    print(f"{name}: {len(text.encode()) / 1e6:.2f} MB")
    expect(len(text.encode()) <= (6_000_000 if name in ("sixty", "hostile") else 1_500_000), name, "the page is too large")
    xml.etree.ElementTree.fromstring(text)
    browser.open(path)
    browser.run("localStorage.clear()")
    browser.driver.get_log("browser"), browser.requests()
    for mode in MODES:
        browser.prefer(mode)
        for width in WIDTHS:
            browser.resize(width)
            browser.open(path)
            wide = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
            expect(wide <= 0, name, f"the page is {wide} pixels too wide at {width}")
            browser.picture(output / f"{name}-{width}-{mode}.png")
        if axe:
            for violation in violations(browser, axe):
                problem(name, f"{mode}: {violation}")
    for entry in browser.driver.get_log("browser"):
        problem(name, f"console: {entry['message'][:200]}")
    for url in browser.requests():
        expect(url == path.as_uri(), name, f"request for {url[:200]}")
    expect(browser.driver.title != "broken", name, "markup of a text was executed")
    levels = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))")
    expect(levels[0] == 1 and levels.count(1) == 1, name, f"headings begin with {levels[:3]}")
    expect(all(b <= a + 1 for a, b in zip(levels, levels[1:])), name, "a heading leaves out a level")


def column_values(browser, column):
    script = """return [...document.querySelectorAll('#rows tbody tr')].filter((r) => !r.hidden)
      .map((r) => r.cells[arguments[0]].dataset.v).filter((v) => v !== undefined).map(Number)"""
    return browser.run(script, column)


def check_sorting(browser, name):
    heads = browser.run("return [...document.querySelectorAll('#rows thead th')].map((h) => h.dataset.metric || '')")
    for column, metric in enumerate(heads):
        if not metric:
            continue
        for direction, is_reversed in (("ascending", False), ("descending", True)):
            browser.run("document.querySelectorAll('#rows thead button')[arguments[0]].click()", column)
            found = column_values(browser, column)
            expect(found == sorted(found, reverse=is_reversed), name, f"{metric} is not sorted {direction}")
            sort = browser.run("return document.querySelectorAll('#rows thead th')[arguments[0]].ariaSort", column)
            expect(sort == direction, name, f"aria-sort of {metric} is {sort}")


def check_filters(browser, name):
    type_in = "const e = document.getElementById(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event(arguments[2]))"
    shown = "return [...document.querySelectorAll('#rows tbody tr')].filter((r) => r.offsetParent !== null).length"
    before = browser.run(shown)
    browser.run(type_in, "filter", "nf4", "input")
    expect(0 < browser.run(shown) < before, name, "the text filter does not filter")
    browser.run(type_in, "filter", "no such row", "input")
    expect(browser.run(shown) == 0, name, "the text filter shows what does not match")
    browser.run(type_in, "filter", "", "input")
    browser.run(type_in, "scenario", "trade-off", "change")
    others = browser.run("return document.querySelectorAll('#rows tbody tr:not([hidden]):not([data-scenario=trade-off])').length")
    expect(others == 0 and 0 < browser.run(shown) < before, name, "the scenario does not filter")
    browser.run(type_in, "scenario", "", "change")
    expect(browser.run(shown) == before, name, "rows stay hidden")
    cells = "return [...document.querySelectorAll('#rows td')].filter((c) => c.offsetParent !== null).length"
    visible = browser.run(cells)
    browser.run("document.querySelector('[data-column=total_latency_s]').click()")
    expect(browser.run(cells) == visible - before, name, "a column cannot be taken away")
    browser.run("document.querySelector('[data-column=total_latency_s]').click()")


def check_baseline(browser, name):
    verdicts = "return [...document.querySelectorAll('#rows tbody tr')].map((r) => r.id + ' ' + r.cells[3].textContent).sort()"
    own = browser.run(verdicts)
    options = browser.run("return [...document.querySelectorAll('#baseline optgroup option')].map((o) => o.value)")
    expect(len(options) > 1, name, "there is no other baseline to choose")
    change = "const e = document.getElementById('baseline'); e.value = arguments[0]; e.dispatchEvent(new Event('change'))"
    for option in options:
        browser.run(change, option)
        row = int(option.split(":")[1])
        expect(f"row-{row} baseline" in browser.run(verdicts), name, f"row {row} is not the baseline that was chosen")
        pairs = browser.run("return JSON.parse(document.getElementById('pairs').textContent)")[int(option.split(":")[0])]
        for pair, (_, text, detail, _) in pairs["cells"].items():
            subject, base = map(int, pair.split(":"))
            if base == row:
                expect(f"row-{subject} {text} {detail}" in browser.run(verdicts), name, f"the verdict of {pair} is not shown")
                break
    browser.run(change, "")
    expect(browser.run(verdicts) == own, name, "the run's own verdicts do not come back")


def check_keyboard(browser, name):
    from selenium.webdriver.common.keys import Keys

    marks = "document.querySelectorAll('svg.plot .mark[data-row]')"
    browser.run(f"{marks}[0].focus()")
    tip = "const t = document.querySelector('.tip'); return t.hidden ? '' : t.textContent"
    first = browser.run(tip)
    expect("n = " in first or "MiB" in first, name, f"the focused mark says '{first}'")
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    expect(browser.run(tip) != first, name, "an arrow does not lead to the next mark")
    row = browser.run("return document.activeElement.dataset.row")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    chosen = browser.run("return document.querySelector('tr.chosen')?.id")
    expect(chosen == f"row-{row}", name, f"Enter on the mark of row {row} chooses {chosen}")
    stops = browser.run("return document.querySelectorAll('svg.plot .mark[tabindex=\"0\"]').length")
    plots = browser.run("return [...document.querySelectorAll('svg.plot')].filter((s) => s.querySelector('.mark')).length")
    expect(stops == plots, name, "each plot has one stop for Tab")


def check_theme_and_print(browser, name, output):
    paper = "return getComputedStyle(document.body).backgroundColor"
    browser.prefer("light")
    light = browser.run(paper)
    browser.run("document.querySelector('.theme').click()")
    expect(browser.run(paper) != light, name, "the switch does not darken the page")
    browser.prefer("light", "print")
    expect(browser.run(paper) == "rgb(255, 255, 255)", name, "a dark page is printed dark")
    hidden = browser.run("return getComputedStyle(document.getElementById('controls')).display")
    expect(hidden == "none", name, "the controls are printed")
    pdf = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False, "landscape": True})
    (output / f"{name}.pdf").write_bytes(base64.b64decode(pdf["data"]))
    browser.prefer("light")
    browser.run("document.querySelector('.theme').click()")


def check_download(browser, name, downloads, path):
    browser.run("document.querySelector('#download button').click()")
    file = downloads / "results.json"
    for _ in range(50):
        if file.exists() and file.stat().st_size > 0:
            break
        time.sleep(0.1)
    expect(file.exists(), name, "nothing was downloaded")
    if file.exists():
        # Samples have seven digits in the page.
        read = [json.loads(each.read_text(), parse_float=lambda text: float(f"{float(text):.7g}")) for each in (file, path.parent / file.name)]  # fmt: skip
        expect(read[0] == read[1], name, "the download differs from results.json")


def check_real(browser, name, path, downloads, output):
    browser.prefer("light")
    browser.resize(1200)
    browser.open(path)
    check_sorting(browser, name)
    check_filters(browser, name)
    check_baseline(browser, name)
    check_keyboard(browser, name)
    check_theme_and_print(browser, name, output)
    check_download(browser, name, downloads, path)


def missing_parts():
    missing = [program for program in ("chromium", "chromedriver") if not shutil.which(program)]
    return missing + (["the Python package selenium"] if not importlib.util.find_spec("selenium") else [])


def write_first_screens(browser, path, folder):
    """README's pictures: the first screen in both modes, in 256 colours. Needs Pillow."""
    from PIL import Image
    for mode in MODES:
        browser.prefer(mode)
        browser.resize(1200, 1180)
        browser.run("localStorage.clear()")
        browser.open(path)
        shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {})
        picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
        picture.quantize(256, dither=Image.Dither.NONE).save(folder / f"report_{mode}.png", optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/assay"))
    parser.add_argument("--run", help="folder with the results.json of a run of the demo [a run of 45 s]")
    parser.add_argument("--output", help="folder for screenshots and the printed page [build/html]")
    parser.add_argument("--only", help="names of pages, joined by commas: real,sixty,hostile,failed,empty")
    parser.add_argument("--pictures", help="folder for report_light.png and report_dark.png of README [none]")
    arguments = parser.parse_args()
    if missing := missing_parts():
        print(f"left out: pages in a browser need {', '.join(missing)}")
        return 0
    axe = axe_script()
    if axe is None:
        print("left out: accessibility needs the Python package axe-core-python or axe-selenium-python")
    output = pathlib.Path(arguments.output or ROOT / "build/html").resolve()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (downloads := folder / "downloads").mkdir()
        pages = make_pages(arguments, folder)
        browser = Browser(downloads)
        try:
            for name, path in pages.items():
                if arguments.only and name not in arguments.only.split(","):
                    continue
                check_page(browser, name, path, axe, output)
                if name == "real":
                    check_real(browser, name, path, downloads, output)
                    if arguments.pictures:
                        write_first_screens(browser, path, pathlib.Path(arguments.pictures))
        finally:
            browser.driver.quit()
    print("\n".join(problems) if problems else f"html: {len(pages)} pages in a browser, nothing found; screenshots in {output}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
