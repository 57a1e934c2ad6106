/** The viewer's figures, measured in a real browser; benchmarks/viewer.py makes the lake and prints them. */
import { readFileSync, writeFileSync } from "node:fs";
import type { CDPSession, Page } from "playwright-core";
import { afterAll, expect, test } from "vitest";
import { addressOf, CHROMIUM, count, FLAGS, open, PATIENCE_MS } from "./browser";
import { PlainBrowser } from "./devtools";
import { traced } from "./trace";

const SCROLL_S = Number(process.env.SCROLL_S ?? "20");
const PARTS = Math.max(4, Math.round(SCROLL_S / 60)); // memory is read after each: at most a minute
const TRACED_S = 6;
const PIXELS_A_SECOND = 1500; // a fast flick: nine lines of images
const OPENINGS = 5;
const FILMS = 3;

/** Milliseconds from the start of the navigation to the first painted cell, and to all in sight. */
const FIRST_PAINTS = `new Promise((resolve) => {
  let first = 0;
  const lineOf = (cell) => [...document.querySelectorAll(".line")].find((line) => line.getBoundingClientRect().top === cell.getBoundingClientRect().top);
  const isPainted = (cell) => {
    const line = lineOf(cell);
    if (line === undefined || line.width <= 1) return false;
    const middle = cell.getBoundingClientRect().left - line.getBoundingClientRect().left + cell.clientWidth / 2;
    return line.getContext("2d").getImageData(Math.round(middle * devicePixelRatio), line.height >> 1, 1, 1).data[3] > 0;
  };
  const look = () => {
    const grid = document.querySelector("[data-testid=grid]");
    const bottom = grid?.getBoundingClientRect().bottom ?? 0;
    const inSight = [...document.querySelectorAll(".cell")].filter((cell) => cell.getBoundingClientRect().top < bottom);
    if (first === 0 && inSight.some(isPainted)) first = performance.now();
    if (inSight.length > 0 && inSight.every(isPainted)) resolve([first, performance.now(), inSight.length]);
    else requestAnimationFrame(look);
  };
  look();
})`;

async function opened(path: string): Promise<{ page: Page; session: CDPSession }> {
  const page = await open(path, { isFirst: true });
  return { page, session: await page.context().newCDPSession(page) };
}

/** What DevTools' protocol is asked, by Playwright's session or a plain one. */
interface Asked {
  send(method: string, params?: Record<string, unknown>): Promise<unknown>;
}

const GRID = 'document.querySelector("[data-testid=grid]")';
const BACK_NEAR_THE_END = `{
  const grid = ${GRID};
  if (grid.scrollTop + ${2.5 * PIXELS_A_SECOND} > grid.scrollHeight - grid.clientHeight) grid.scrollTo(0, 0);
}`;

async function scroll(session: Asked, seconds: number): Promise<void> {
  for (let turn = 0; turn < seconds / 2; turn += 1) {
    await session.send("Runtime.evaluate", { expression: BACK_NEAR_THE_END });
    await session.send("Input.synthesizeScrollGesture", {
      x: 500,
      y: 400,
      yDistance: -2 * PIXELS_A_SECOND,
      speed: PIXELS_A_SECOND,
      preventFling: true,
      gestureSourceType: "mouse",
    });
  }
}

interface Memory {
  heap: number;
  process: number;
  browser: number;
}

/** Megabytes after a collection: of JavaScript's heap, of the page's process with its images, of all of the browser. */
async function memory(browser: PlainBrowser): Promise<Memory> {
  await browser.send("HeapProfiler.collectGarbage");
  const { usedSize } = await browser.send("Runtime.getHeapUsage");
  const all = browser.processes().map(({ pid, type }) => ({ type, size: residentMegabytes(pid) }));
  const pages = all.filter(({ type }) => type === "renderer").map(({ size }) => size);
  const sum = all.reduce((total, { size }) => total + size, 0);
  return { heap: Number(usedSize) / 1e6, process: Math.max(0, ...pages), browser: sum }; // the largest page is the one that scrolled
}

/** What a process holds, memory that several share divided among them. */
function residentMegabytes(pid: number): number {
  const sizes = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return Number(/^Pss:\s+(\d+)/m.exec(sizes)?.[1] ?? "0") / 1000;
}

const figures: Record<string, unknown> = {};

afterAll(() => writeFileSync(process.env.FIGURES ?? "figures.json", JSON.stringify(figures, null, 1)));

test("openings", async () => {
  const openings: number[][] = [];
  for (let i = 0; i < OPENINGS; i += 1) {
    const { page } = await opened("million");
    openings.push(await page.evaluate<number[]>(FIRST_PAINTS));
    expect(await count(page)).toBe("1,000,000 rows");
    await page.context().close();
  }
  figures.openings = openings;
});

test("scrolling", async () => {
  const { page, session } = await opened("scenes");
  await page.evaluate(FIRST_PAINTS);
  figures.scrolling = await traced(session, "scrolling", () => scroll(session, TRACED_S));
});

test("memory", async () => {
  const browser = await PlainBrowser.open(CHROMIUM, FLAGS, addressOf("scenes"), { width: 1280, height: 800 });
  try {
    await browser.evaluate(`new Promise((resolve) => (document.readyState === "complete" ? resolve() : addEventListener("load", resolve)))`);
    await browser.evaluate(FIRST_PAINTS);
    const sizes = [await memory(browser)];
    for (let part = 0; part < PARTS; part += 1) {
      await scroll(browser, SCROLL_S / PARTS);
      sizes.push(await memory(browser));
    }
    figures.memory = sizes;
  } finally {
    await browser.close();
  }
});

test("boxes", async () => {
  const { page, session } = await opened("crowd?row=0&look=1");
  const canvas = page.locator("[data-testid=detail-view] canvas");
  await page.getByText(/%$/).waitFor();
  await canvas.hover();
  await page.mouse.down();
  figures.boxes = await traced(session, "boxes", async () => {
    for (let i = 0; i < 60; i += 1) {
      await page.mouse.move(500 + 3 * i, 400 + (i % 2));
      await page.evaluate("new Promise(requestAnimationFrame)");
    }
  });
  await page.mouse.up();
});

/** Draws a rectangle around most of the map, and waits for its rows; returns the milliseconds that finding them took. */
async function lasso(page: Page): Promise<number> {
  const map = page.getByTestId("map");
  const box = (await map.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
  const place = (across: number, down: number) => [box.x + box.width * across, box.y + box.height * down] as const;
  await page.mouse.move(...place(0.02, 0.02));
  await page.mouse.down();
  for (const corner of [place(0.98, 0.02), place(0.98, 0.8), place(0.02, 0.8), place(0.02, 0.03)]) await page.mouse.move(...corner, { steps: 10 });
  await page.mouse.up();
  await soon(() => page.getByTestId("selection").count()).toBe(1);
  const found = Number(await map.getAttribute("data-found-ms"));
  await map.focus();
  await page.keyboard.press("Escape");
  await soon(() => page.getByTestId("selection").count()).toBe(0);
  return found;
}

const soon = <T>(look: () => Promise<T>) => expect.poll(look, { timeout: PATIENCE_MS });

async function openMap(page: Page, path: string, points: number): Promise<void> {
  await page.goto(addressOf(path));
  const read = async (name: string) => Number(await page.getByTestId("map").getAttribute(name));
  await soon(() => read("data-points")).toBe(points);
  await soon(() => read("data-drawn-ms")).toBeGreaterThan(0);
}

test("map", async () => {
  const { page, session } = await opened("points?mode=map");
  await openMap(page, "swarm?mode=map", 1_000_000);
  const work = await traced(session, "map", async () => {
    for (let i = 0; i < OPENINGS; i += 1) await lasso(page);
  });
  await openMap(page, "points?mode=map", 100_000);
  const found: number[] = [];
  for (let i = 0; i < OPENINGS; i += 1) found.push(await lasso(page));

  figures.map = { ...work, found };
});

test("edits", async () => {
  const { page, session } = await opened("million?row=0&label=label");
  await page.getByTestId("edits").waitFor();
  await page.evaluate(FIRST_PAINTS);
  figures.edits = await traced(session, "edits", async () => {
    for (let i = 0; i < 60; i += 1) {
      await page.keyboard.press(i % 2 === 0 ? "2" : "1"); // the other class: it is a change
      await page.evaluate("new Promise(requestAnimationFrame)");
    }
  });
  await page.getByRole("button", { name: /^Review \d+ changes/ }).waitFor();
});

/** Milliseconds from a key to the picture of the film that it selects: the server's, and the browser's own first frame. */
const FIRST_FRAME = `void (window.firstFrame = new Promise((resolve) => addEventListener("keydown", () => {
  const started = performance.now();
  let poster = null;
  const look = () => {
    const film = document.querySelector("[data-testid=video] video");
    if (film === null || film === window.lastFilm) return requestAnimationFrame(look);
    window.lastFilm = film;
    const picture = new Image();
    picture.src = film.poster;
    void picture.decode().then(() => (poster = performance.now() - started));
    const seen = () => (poster === null ? setTimeout(seen, 1) : resolve([poster, own]));
    let own = null;
    const loaded = () => {
      own = performance.now() - started;
      seen();
    };
    if (film.readyState >= 2) loaded(); // it has its first frame
    else film.addEventListener("loadeddata", loaded, { once: true });
  };
  look();
}, { once: true, capture: true })))`;

test.runIf(process.env.FAR_LINK !== undefined)("film", async () => {
  const far = new URL(process.env.FAR_LINK ?? "");
  const page = await open("", { isFirst: true, elsewhere: far.host });
  const films = new URL("films", far);
  films.hash = far.hash;
  await page.goto(films.href);
  await page.evaluate(FIRST_PAINTS);
  const frames: number[][] = [];
  for (let row = 0; row < FILMS; row += 1) {
    await page.evaluate(FIRST_FRAME); // a key that is pressed before it listens would be missed
    await page.keyboard.press("j");
    frames.push(await page.evaluate<number[]>("window.firstFrame"));
  }
  figures.film = frames;
});
