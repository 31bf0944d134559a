// Opens a page of a lab run or a study in Chromium and checks what a reader would notice. Usage:
//   [SCREENSHOTS=FOLDER] node test/browser.mjs CHROMIUM PAGE.html...
// Exits 1 and says why when something is wrong. The Rust test of waggle-report runs it.

import assert from "node:assert/strict";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

const [executablePath, ...pages] = process.argv.slice(2);
const screenshots = process.env.SCREENSHOTS;
if (!executablePath || pages.length === 0) {
    console.error("usage: node test/browser.mjs CHROMIUM PAGE.html...");
    process.exit(2);
}

const browser = await chromium.launch({
    executablePath,
    args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ],
});
try {
    for (const page of pages) {
        await look(page, 1280, "light");
        await look(page, 390, "dark");
        await withoutScripts(page);
    }
    console.log("browser: the pages hold");
} finally {
    await browser.close();
}

async function look(page, width, colorScheme) {
    const context = await browser.newContext({
        viewport: { width, height: 900 },
        colorScheme,
        acceptDownloads: true,
    });
    const tab = await context.newPage();
    const complaints = [];
    const requests = [];
    tab.on("console", (message) => {
        if (["error", "warning"].includes(message.type())) complaints.push(message.text());
    });
    tab.on("pageerror", (error) => complaints.push(String(error)));
    tab.on("request", (request) => requests.push(request.url()));
    const address = pathToFileURL(page).href;
    await tab.goto(address);
    await tab.waitForSelector("html[data-drawn=yes]");
    const id = await tab.evaluate(
        () => document.querySelector("script[type='application/json']").id,
    );
    const kind = id.split("-")[1];
    // The last cell names what is hostile, the first what is not measured.
    if (kind === "study") await openCells(tab);
    // Charts are drawn when their width is known; a trace has none.
    await tab.waitForFunction(
        (least) =>
            document.querySelectorAll(".chart canvas").length >= least &&
            [...document.querySelectorAll(".chart, .graph")].every(
                (chart) => chart.childElementCount > 0,
            ),
        ["trace", "profile", "tune"].includes(kind) ? 0 : 3,
    );

    const overflow = await tab.evaluate(
        () => document.documentElement.scrollWidth - window.innerWidth,
    );
    assert.ok(overflow <= 0, `${width} px: the page is ${overflow} px too wide`);
    const show = {
        study: studyShowsTheData,
        lab: tableShowsTheData,
        bench: benchShowsItsProfilesToo,
        trace: traceShowsTheData,
        profile: profileShowsTheData,
        tune: tuneShowsTheData,
    };
    await show[kind](tab);
    await idsAreUnique(tab);
    await chartsAreDescribed(tab);
    await canvasesAreDrawn(tab);
    if (width === 1280) await dataCanBeSaved(tab, kind);
    if (width === 1280 && kind === "lab") await noColumnIsHidden(tab);
    if (screenshots) await keepPictures(tab, basename(page, ".html"), width, colorScheme);

    assert.deepEqual(complaints, [], "the console is silent");
    const outside = requests.filter(
        (url) => url !== address && !url.startsWith("data:") && !url.startsWith("blob:"),
    );
    assert.deepEqual(outside, [], "nothing is asked of the network");
    await context.close();
}

/** The table of arms is read without scrolling. */
async function noColumnIsHidden(tab) {
    const hidden = await tab.$eval(".figures.arms", (table) => {
        return table.offsetWidth - table.parentElement.clientWidth;
    });
    assert.ok(hidden <= 0, `the table of arms is ${hidden} px wider than its place`);
}

async function keepPictures(tab, name, width, colorScheme) {
    await tab.screenshot({
        path: `${screenshots}/${name}-${width}-${colorScheme}.png`,
        fullPage: true,
    });
    if (width !== 1280) return;
    const path = `${screenshots}/${name}.pdf`;
    await tab.pdf({ path, preferCSSPageSize: true, printBackground: true });
}

/** Reads the figures back from the table and compares them with the embedded document. */
async function tableShowsTheData(tab) {
    const { report, rows, title, heading } = await tab.evaluate(() => ({
        report: JSON.parse(document.getElementById("waggle-lab-report").textContent),
        rows: [...document.querySelectorAll(".arms tbody tr")].map((row) => ({
            arm: row.dataset.arm,
            cells: [...row.querySelectorAll("td")].map((cell) => {
                const small = cell.querySelector("small")?.textContent ?? "";
                const figure = cell.textContent.slice(0, cell.textContent.length - small.length);
                return { figure: figure.replace(/−/g, "-").replace(/,/g, ""), small };
            }),
        })),
        title: document.title,
        heading: document.querySelector("h1").textContent,
    }));
    assert.equal(title, heading);
    assert.deepEqual(
        rows.map((row) => row.arm),
        report.arms.map((arm) => arm.name),
    );
    for (const [index, arm] of report.arms.entries()) {
        const { cells } = rows[index];
        const cpu = arm.cpu_us_per_statement;
        if (cpu) {
            assert.equal(Number(cells[0].figure), Number(cpu.base.toFixed(2)));
            const shown = Number(cells[1].figure);
            assert.ok(
                Math.abs(shown - cpu.delta) < 0.051,
                `${arm.name}: ${shown} for ${cpu.delta}`,
            );
            assert.match(cells[1].small, / to /);
        } else {
            assert.equal(cells[1].figure, "–");
        }
        assert.equal(Number(cells[9].figure), arm.executed);
    }
}

/** Opens the first and the last cell, the last one by its link. */
async function openCells(tab) {
    await tab.click("details.cell:first-of-type > summary");
    const anchor = await tab.evaluate(() => {
        const cells = [...document.querySelectorAll("details.cell")];
        return cells[cells.length - 1].id;
    });
    await tab.evaluate((id) => {
        location.hash = id;
    }, anchor);
    await tab.waitForFunction(
        (id) => document.getElementById(id).open && document.getElementById(id).children.length > 3,
        anchor,
    );
}

/** Reads the tables back and compares them with the embedded document. */
async function studyShowsTheData(tab) {
    const { report, tables } = await tab.evaluate(() => ({
        report: JSON.parse(document.getElementById("waggle-study-report").textContent),
        tables: [...document.querySelectorAll("section[id^=table] > .scroll > table")].map(
            (table) =>
                [...table.querySelectorAll("tbody tr")].map((row) =>
                    [...row.querySelectorAll("td")].map((cell) => {
                        const small = cell.querySelector("small")?.textContent ?? "";
                        const text = cell.textContent;
                        return text.slice(0, text.length - small.length).replace(/−/g, "-");
                    }),
                ),
        ),
    }));
    assert.equal(tables.length, report.tables.length);
    let compared = 0;
    for (const [at, table] of report.tables.entries()) {
        for (const [index, row] of table.rows.entries()) {
            for (const [column] of table.columns.entries()) {
                const value = row.values[column];
                const shown = tables[at][index][column];
                if (typeof value?.value === "number" && value.low !== null) {
                    const half = (value.high ?? 0) - (value.low ?? 0);
                    const slack = Math.max(half / 10, 0.51);
                    const difference = Math.abs(Number(shown.replace(/,/g, "")) - value.value);
                    assert.ok(difference <= slack, `${shown} for ${value.value}`);
                    compared += 1;
                } else if (value?.kind === "text") assert.equal(shown, value.text);
                else assert.equal(shown, "–");
            }
        }
    }
    assert.ok(compared > 0, "a table shows figures");
    const markup = await tab.evaluate(() => document.querySelectorAll("img").length);
    assert.equal(markup, 0, "no name became markup");
}

/** Profiles beside a bench run are drawn as on a page of their own. */
async function benchShowsItsProfilesToo(tab) {
    await benchShowsTheData(tab);
    if (await tab.$("#waggle-profile-report")) await profileShowsTheData(tab);
}

/** Reads a latency back and compares it with the embedded document. */
async function benchShowsTheData(tab) {
    const { report, rows } = await tab.evaluate(() => ({
        report: JSON.parse(document.getElementById("waggle-bench-report").textContent),
        rows: [...document.querySelectorAll("#latencies tbody tr")].map((row) =>
            [...row.querySelectorAll("th, td")].map((cell) => cell.textContent),
        ),
    }));
    assert.deepEqual(
        rows.map(([name]) => name),
        report.latencies.map(({ name }) => name),
    );
    for (const [index, latency] of report.latencies.entries())
        assert.equal(Number(rows[index][3]), Number((latency.mean / 1000).toFixed(3)));
    assert.equal(await tab.evaluate(() => document.querySelectorAll("td b, th b").length), 0);
}

/** Every bar has parts that fill no more than its width; no name became markup. */
async function traceShowsTheData(tab) {
    const { subject, sections, bars, images } = await tab.evaluate(() => ({
        subject: JSON.parse(document.getElementById("waggle-trace-report").textContent).report
            .subject,
        sections: [...document.querySelectorAll("main > section")].map(({ id }) => id),
        bars: [...document.querySelectorAll(".parts")].map((bar) =>
            [...bar.children].reduce((sum, part) => sum + parseFloat(part.style.width), 0),
        ),
        images: document.querySelectorAll("main img").length,
    }));
    const expected = {
        func: ["functions", "histograms", "slow", "cost"],
        pipeline: ["waits", "waterfall", "stages", "doing", "slowest"],
        waits: ["summary", "graph", "requests", "slowest", "stacks"],
        latch: ["waits", "latches", "holders"],
    };
    for (const id of expected[subject]) assert.ok(sections.includes(id), `${subject}: ${id}`);
    assert.ok(bars.length > 0, "a bar is drawn");
    for (const width of bars) assert.ok(width <= 100.01, `a bar is ${width}% wide`);
    assert.equal(images, 0, "no name became markup");
}

/** Reads the configurations back from the tables and compares them with the embedded document. */
async function tuneShowsTheData(tab) {
    const { report, stages, markup } = await tab.evaluate(() => ({
        report: JSON.parse(document.getElementById("waggle-tune-report").textContent),
        stages: [...document.querySelectorAll("section[id^=stage-]")].map((stage) =>
            [...stage.querySelectorAll(".scroll tbody tr")].map((row) => {
                const cell = row.querySelector("td");
                const small = cell.querySelector("small")?.textContent ?? "";
                const figure = cell.textContent.slice(0, cell.textContent.length - small.length);
                const level = parseFloat(figure.replace(/,/g, ""));
                return { label: row.querySelector("th").textContent, level };
            }),
        ),
        markup: document.querySelectorAll("main img, main script").length,
    }));
    assert.equal(markup, 0, "no text of a server becomes markup");
    assert.equal(stages.length, report.stages.length);
    for (const [index, stage] of report.stages.entries()) {
        assert.equal(stages[index].length, stage.configurations.length);
        for (const { label, level } of stages[index]) {
            const config = stage.configurations.find((one) => one.label === label.trim());
            assert.ok(config, `${label} was tried`);
            if (config.level === null) assert.ok(Number.isNaN(level), `${label} has no figure`);
            else {
                const slack = (config.level.high - config.level.low) / 10 + 0.51;
                const apart = Math.abs(level - config.level.estimate);
                assert.ok(apart <= slack, `${label}: ${level} for ${config.level.estimate}`);
            }
        }
    }
}

/** The graph is as wide as its time, zooms, searches and changes with its switches. */
async function profileShowsTheData(tab) {
    const widths = () =>
        tab.evaluate(() =>
            [...document.querySelectorAll(".flame rect")].map((box) => ({
                x: Number(box.getAttribute("x")),
                y: Number(box.getAttribute("y")),
                width: Number(box.getAttribute("width")),
            })),
        );
    const first = await widths();
    assert.ok(first.length > 4, `${first.length} boxes are drawn`);
    const whole = first[0].width;
    for (const { x, width } of first) assert.ok(x + width <= whole + 1, `${x} and ${width}`);
    const calls = await tab.$$(".flame g");
    await calls[calls.length - 1].click();
    const zoomed = await widths();
    assert.ok(
        zoomed.filter(({ width }) => width >= whole - 1).length > 1,
        "a call and its callers are as wide as the graph",
    );
    await tab.click("text=Show all");
    assert.equal((await widths()).length, first.length);
    await tab.fill(".switches input[type=search]", "row_search");
    const found = await tab.textContent(".readout");
    assert.match(found ?? "", /row_search.* is in [\d.]+% of it/);
    const listed = await tab.$$(".functions tbody tr");
    assert.equal(listed.length, 1, "the table follows the search");
    // What is no regular expression is looked for as it is.
    await tab.fill(".switches input[type=search]", "<img src=x (");
    assert.match((await tab.textContent(".readout")) ?? "", /is in/);
    await tab.fill(".switches input[type=search]", "");
    const pick = (label, value) =>
        tab.selectOption(`.switches label:has-text("${label}") select`, value);
    await pick("Time", "1");
    assert.match((await tab.textContent(".readout")) ?? "", /2,000 samples/);
    await pick("Time", "0");
    await pick("By", "digest");
    const names = await tab.evaluate(() =>
        [...document.querySelectorAll(".flame text")].map((text) => text.textContent),
    );
    assert.ok(
        names.some((name) => name.startsWith("select c")),
        names.join(" | "),
    );
    await tab.check(".switches input[type=checkbox]");
    await tab.uncheck(".switches input[type=checkbox]");
    await pick("By", "all");
    assert.equal((await widths()).length, first.length);
    const markup = await tab.evaluate(() => document.querySelectorAll("main img").length);
    assert.equal(markup, 0, "no name became markup");
    const said = await tab.textContent("main");
    assert.match(said ?? "", /3 ring full/, "what was lost is said");
}

async function idsAreUnique(tab) {
    const doubled = await tab.evaluate(() => {
        const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
        return ids.filter((id, index) => ids.indexOf(id) !== index);
    });
    assert.deepEqual(doubled, [], "ids stand once");
}

async function chartsAreDescribed(tab) {
    const silent = await tab.evaluate(
        () =>
            [...document.querySelectorAll("[role=img]")].filter(
                (image) => !image.getAttribute("aria-label") && !image.querySelector("title"),
            ).length,
    );
    assert.equal(silent, 0, "every chart has words");
}

async function canvasesAreDrawn(tab) {
    const colours = await tab.evaluate(() =>
        [...document.querySelectorAll(".chart canvas")].map((canvas) => {
            const { data } = canvas
                .getContext("2d")
                .getImageData(0, 0, canvas.width, canvas.height);
            const seen = new Set();
            for (let at = 0; at < data.length; at += 4) {
                if (data[at + 3] > 0)
                    seen.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
            }
            return seen.size;
        }),
    );
    for (const count of colours) assert.ok(count >= 3, `a chart shows ${count} colours`);
}

async function dataCanBeSaved(tab, kind) {
    const embedded = await tab.evaluate(() =>
        JSON.parse(document.querySelector("script[type='application/json']").textContent),
    );
    const data = kind === "trace" ? embedded.report : embedded;
    assert.deepEqual(JSON.parse(await save(tab, "Save the data (JSON)")), data);
    if (kind === "trace" || kind === "profile") return;
    if (kind === "tune") {
        const blocks = embedded.stages.reduce((sum, stage) => sum + stage.samples.length, 0);
        assert.equal(lines(await save(tab, "Save the blocks (CSV)")), blocks + 1);
        return;
    }
    if (kind === "bench") {
        assert.equal(
            lines(await save(tab, "Save the intervals (CSV)")),
            embedded.intervals.length + 1,
        );
        return;
    }
    const groups = kind === "study" ? embedded.cells : [embedded];
    const windows = groups.reduce((sum, group) => sum + group.windows.length, 0);
    assert.equal(lines(await save(tab, "Save the windows (CSV)")), windows + 1);
    if (kind !== "study") return;
    const values = embedded.tables.reduce((sum, t) => sum + t.rows.length * t.columns.length, 0);
    assert.equal(lines(await save(tab, "Save the tables (CSV)")), values + 1);
}

function lines(text) {
    return text.trim().split("\n").length;
}

async function save(tab, button) {
    const [download] = await Promise.all([
        tab.waitForEvent("download"),
        tab.click(`text=${button}`),
    ]);
    return read(download);
}

async function read(download) {
    const chunks = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk);
    return Buffer.concat(chunks).toString("utf8");
}

/** Without scripts the answer and the tables are there as text. */
async function withoutScripts(page) {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const tab = await context.newPage();
    await tab.goto(pathToFileURL(page).href);
    const text = await tab.textContent("noscript");
    assert.match(text ?? "", /verdict|transactions|on average|traced|by function/);
    const shown = await tab.evaluate(() => document.querySelectorAll("noscript img").length);
    assert.equal(shown, 0, "no name became markup");
    await context.close();
}
