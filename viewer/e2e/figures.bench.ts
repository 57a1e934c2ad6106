/** The viewer's figures, measured in a real browser; benchmarks/viewer.py makes the lake and prints them. */
import { readFileSync, writeFileSync } from "node:fs";
import type { CDPSession, Page } from "playwright-core";
import { afterAll, expect, test } from "vitest";
import { count, open } from "./browser";
import { traced } from "./trace";

const SCROLL_S = Number(process.env["SCROLL_S"] ?? "20");
const PARTS = Math.max(4, Math.round(SCROLL_S / 60)); // memory is read after each: at most a minute
const TRACED_S = 6;
const PIXELS_A_SECOND = 1500; // a fast flick: nine lines of pictures
const OPENINGS = 5;

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
  const page = await open(path);
  return { page, session: await page.context().newCDPSession(page) };
}

async function scroll(page: Page, session: CDPSession, seconds: number): Promise<void> {
  const box = await page.getByTestId("grid").boundingBox();
  const [x, y] = [(box?.x ?? 0) + 100, (box?.y ?? 0) + 100];
  for (let turn = 0; turn < seconds / 2; turn += 1) {
    const top = await page.getByTestId("grid").evaluate((grid) => [grid.scrollTop, grid.scrollHeight - grid.clientHeight]);
    const isNearEnd = (top[0] ?? 0) + 2.5 * PIXELS_A_SECOND > (top[1] ?? 0);
    if (isNearEnd) await page.getByTestId("grid").evaluate((grid) => grid.scrollTo(0, 0));
    await session.send("Input.synthesizeScrollGesture", {
      x,
      y,
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

/** Megabytes after a collection: of JavaScript's heap, of the page's process with its pictures, of all of the browser. */
async function memory(page: Page, session: CDPSession): Promise<Memory> {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const heap = (metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? 0) / 1e6;
  const system = await page.context().browser()?.newBrowserCDPSession();
  const { processInfo = [] } = (await system?.send("SystemInfo.getProcessInfo")) ?? {};
  const sizes = processInfo.filter(({ type }) => type === "renderer").map(({ id }) => residentMegabytes(id));
  const all = processInfo.map(({ id }) => residentMegabytes(id));
  await system?.detach();
  const sum = all.reduce((total, size) => total + size, 0);
  return { heap, process: Math.max(0, ...sizes), browser: sum }; // the largest renderer is the page that scrolled
}

/** What a process holds, memory that several share divided among them. */
function residentMegabytes(pid: number): number {
  const sizes = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return Number(/^Pss:\s+(\d+)/m.exec(sizes)?.[1] ?? "0") / 1000;
}

const figures: Record<string, unknown> = {};

afterAll(() => writeFileSync(process.env["FIGURES"] ?? "figures.json", JSON.stringify(figures, null, 1)));

test("openings", async () => {
  const openings: number[][] = [];
  for (let i = 0; i < OPENINGS; i += 1) {
    const { page } = await opened("million");
    openings.push((await page.evaluate(FIRST_PAINTS)) as number[]);
    expect(await count(page)).toBe("1,000,000 rows");
    await page.context().close();
  }
  figures["openings"] = openings;
});

test("scrolling", async () => {
  const { page, session } = await opened("scenes");
  await page.evaluate(FIRST_PAINTS);
  await session.send("Performance.enable");
  figures["scrolling"] = await traced(session, "scrolling", () => scroll(page, session, TRACED_S));
});

test("memory", async () => {
  const { page, session } = await opened("scenes");
  await page.evaluate(FIRST_PAINTS);
  await session.send("Performance.enable");
  const sizes = [await memory(page, session)];
  for (let part = 0; part < PARTS; part += 1) {
    await scroll(page, session, SCROLL_S / PARTS);
    sizes.push(await memory(page, session));
  }
  figures["memory"] = sizes;
});

test("boxes", async () => {
  const { page, session } = await opened("crowd?row=0&look=1");
  const canvas = page.locator("[data-testid=closeup] canvas");
  await page.getByText(/%$/).waitFor();
  await canvas.hover();
  await page.mouse.down();
  figures["boxes"] = await traced(session, "boxes", async () => {
    for (let i = 0; i < 60; i += 1) {
      await page.mouse.move(500 + 3 * i, 400 + (i % 2));
      await page.evaluate("new Promise(requestAnimationFrame)");
    }
  });
  await page.mouse.up();
});
