// Opens a lab page in Chromium and checks what a reader would notice. Usage:
//   node test/browser.mjs CHROMIUM PAGE.html [SCREENSHOT-FOLDER]
// Exits 1 and says why when something is wrong. The Rust test of waggle-report runs it.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

const [executablePath, page, screenshots] = process.argv.slice(2);
if (!executablePath || !page) {
    console.error("usage: node test/browser.mjs CHROMIUM PAGE.html [SCREENSHOT-FOLDER]");
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
    for (const width of [1280, 400]) {
        for (const colorScheme of ["light", "dark"]) await look(width, colorScheme);
    }
    await withoutScripts();
    console.log("browser: the page holds");
} finally {
    await browser.close();
}

async function look(width, colorScheme) {
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
    // Charts are drawn when their width is known.
    await tab.waitForFunction(
        () =>
            document.querySelectorAll(".chart canvas").length >= 5 &&
            document.querySelectorAll(".forest svg").length >= 1,
    );

    const overflow = await tab.evaluate(
        () => document.documentElement.scrollWidth - window.innerWidth,
    );
    assert.ok(overflow <= 0, `${width} px: the page is ${overflow} px too wide`);
    await tableShowsTheData(tab);
    await chartsAreDescribed(tab);
    await canvasesAreDrawn(tab);
    if (width === 1280) await dataCanBeSaved(tab);
    if (screenshots) {
        await tab.screenshot({
            path: `${screenshots}/lab-${width}-${colorScheme}.png`,
            fullPage: true,
        });
        if (width === 1280 && colorScheme === "dark") {
            await tab.pdf({
                path: `${screenshots}/lab.pdf`,
                preferCSSPageSize: true,
                printBackground: true,
            });
        }
    }

    assert.deepEqual(complaints, [], "the console is silent");
    const outside = requests.filter(
        (url) => url !== address && !url.startsWith("data:") && !url.startsWith("blob:"),
    );
    assert.deepEqual(outside, [], "nothing is asked of the network");
    await context.close();
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

async function dataCanBeSaved(tab) {
    const embedded = await tab.evaluate(() =>
        JSON.parse(document.getElementById("waggle-lab-report").textContent),
    );
    const [json] = await Promise.all([
        tab.waitForEvent("download"),
        tab.click("text=Save the data (JSON)"),
    ]);
    assert.deepEqual(JSON.parse(await read(json)), embedded);
    const [csv] = await Promise.all([
        tab.waitForEvent("download"),
        tab.click("text=Save the windows (CSV)"),
    ]);
    assert.equal((await read(csv)).trim().split("\n").length, embedded.windows.length + 1);
}

async function read(download) {
    const chunks = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk);
    return Buffer.concat(chunks).toString("utf8");
}

/** Without scripts the answer and the tables are there as text. */
async function withoutScripts() {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const tab = await context.newPage();
    await tab.goto(pathToFileURL(page).href);
    const text = await tab.textContent("noscript");
    assert.match(text ?? "", /verdict/);
    await context.close();
}
