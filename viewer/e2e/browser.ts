/**
 * One Chromium for all tests, a new page for each; what a page did wrong is collected.
 *
 * The pages are of one profile, whose files of the viewer are read, checked and compiled once: that is most of what a
 * test of a new profile costs. What a page could leave behind, forget() takes away after each test, from setup.ts.
 *
 * VIEWER_SLOW=4 makes every page four times slower and its answers late, each by another time, so
 * that they come in another order than they were asked for: a test that reads what it did not wait
 * for is found on a desk, before a loaded machine finds it.
 */
import { setTimeout as wait } from "node:timers/promises";
import { chromium, type Browser, type BrowserContext, type CDPSession, type Page } from "playwright-core";
import { expect } from "vitest";
import { SLOWNESS } from "./slowness";

export const FLAGS = [
  "--no-sandbox", // tests run as root in containers
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** A machine may be ten times slower than a desk: only what never comes is a failure. */
export const PATIENCE_MS = 60_000;

export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const LATEST_MS = 40; // of an answer, for each step of slowness
const link = new URL(process.env.VIEWER_LINK ?? "http://127.0.0.1:8300/");
let profile: Promise<Profile> | undefined;
let faults: string[] = [];

interface Profile {
  browser: Browser;
  context: BrowserContext;
  /** Stays open: a renderer is there when the next page comes, and what is stored can be reached. */
  keeper: Page;
  session: CDPSession;
}

async function start(): Promise<Profile> {
  const args = [...FLAGS, ...(process.env.VIEWER_FLAGS ?? "").split(" ").filter((flag) => flag !== "")];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args }); // it ends with this process
  const context = await browser.newContext();
  const keeper = await context.newPage();
  return { browser, context, keeper, session: await context.newCDPSession(keeper) };
}

/** Closes a test's pages and forgets all that they stored; fails where one of them did wrong. */
export async function forget(): Promise<void> {
  const seen = faults;
  faults = [];
  if (profile !== undefined) {
    const { browser, context, keeper, session } = await profile;
    for (const one of browser.contexts()) if (one !== context) await one.close();
    for (const page of context.pages()) if (page !== keeper) await page.close();
    await context.setOffline(false);
    await context.clearPermissions();
    await context.clearCookies();
    await session.send("Storage.clearDataForOrigin", { origin: link.origin, storageTypes: "all" });
  }
  expect(seen.join("\n"), "errors of the page, and requests to other hosts").toBe("");
}

interface Options {
  viewport?: { width: number; height: number };
  theme?: "dark" | "light";
  withToken?: boolean;
  /** In a profile of its own: nothing is cached yet. */
  isFirst?: boolean;
  /** What the console says of faults that the test brings about itself: "status of 404". */
  expected?: string[];
  /** Another host that the page may ask. */
  elsewhere?: string;
}

/** Opens a path of the viewer, as a user who followed the printed link. */
export async function open(path: string, options: Options = {}): Promise<Page> {
  const { theme = "dark", withToken = true, isFirst = false, expected = [], elsewhere, viewport = { width: 1280, height: 800 } } = options;
  const { browser, context } = await (profile ??= start());
  const page = await (isFirst ? await browser.newContext() : context).newPage();
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme: theme });
  if (SLOWNESS > 1) await slowDown(page);
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("pageerror", (error) => faults.push(`page: ${error.stack ?? error.message}`));
  page.on("console", (message) => {
    const isExpected = expected.some((text) => message.text().includes(text));
    if (message.type() === "error" && !isExpected) faults.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (protocol !== "blob:" && host !== link.host && host !== elsewhere) faults.push(`request: ${request.url()}`);
  });
  await page.goto(withToken ? addressOf(path) : new URL(path, link).href);
  return page;
}

async function slowDown(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: SLOWNESS });
  await page.route("**/v1/**", async (route) => {
    await wait(Math.random() * LATEST_MS * SLOWNESS);
    await route.fallback().catch(() => undefined); // its page is closed
  });
}

/** A path of the viewer, with the token of the printed link. */
export function addressOf(path: string): string {
  const url = new URL(path, link);
  url.hash = link.hash;
  return url.href;
}

/** The number of rows that the footer tells. */
export function count(page: Page): Promise<string> {
  return page.getByTestId("count").innerText();
}

/** The colour of one pixel of a canvas, in its own pixels; null while nothing is drawn there. */
export function pixel(page: Page, canvas: string, x: number, y: number): Promise<number[] | null> {
  return page.locator(canvas).evaluate(
    (element, [left, top]) => {
      const context = (element as HTMLCanvasElement).getContext("2d");
      const data = context?.getImageData(left ?? 0, top ?? 0, 1, 1).data;
      return data === undefined || data[3] === 0 ? null : [...data].slice(0, 3);
    },
    [x, y],
  );
}

// The cells of a line share one canvas, which lies under them.
const CELL_PIXEL = `([row, x, y]) => {
  const cell = document.querySelector("#row-" + row);
  const box = cell?.getBoundingClientRect();
  const line = [...document.querySelectorAll(".line")].find((one) => one.getBoundingClientRect().top === box?.top);
  if (line === undefined || cell.classList.contains("blank")) return null;
  const left = (box.left - line.getBoundingClientRect().left + x) * devicePixelRatio;
  const data = line.getContext("2d").getImageData(left, y * devicePixelRatio, 1, 1).data;
  return data[3] === 0 ? null : [...data].slice(0, 3);
}`;

/** The colour of one pixel of a cell's image in the grid; null until it is painted. */
export function cellPixel(page: Page, row: number, x: number, y: number): Promise<number[] | null> {
  return page.evaluate(`(${CELL_PIXEL})(${JSON.stringify([row, x, y])})`);
}

/** Writes a query as a user does, and runs it by its key. */
export async function query(page: Page, tql: string): Promise<void> {
  await page.keyboard.press("/");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(tql);
  await page.keyboard.press("Control+Enter");
}
