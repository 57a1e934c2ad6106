/** From a telephone's width to a large screen's: everything is reached, nothing is cut off. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { addressOf, cellPixel, count, open, query } from "./browser";

const PHONE = { width: 390, height: 844 };
const EDGE = { width: 760, height: 700 }; // the widest that has a drawer
const WALL = { width: 2560, height: 1440 };

/** Controls of which a part lies outside the page, or under another. */
const CUT_OFF = `[...document.querySelectorAll("header button, header a, footer button, .query button, .detail-view .bar :is(a, button)")]
  .filter((one) => one.checkVisibility())
  .filter((one) => {
    const { left, right, top, bottom } = one.getBoundingClientRect();
    const under = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    return left < 0 || right > innerWidth || !(one.contains(under) || under?.contains(one));
  })
  .map((one) => one.getAttribute("aria-label") ?? one.textContent)`;

async function opened(path: string): Promise<Page> {
  const page = await open(path, { viewport: PHONE });
  await expect.poll(() => cellPixel(page, 0, 40, 20)).not.toBeNull();
  return page;
}

/** The same page anew, for a window of another size: what it is made of is read once. */
async function resized(page: Page, path: string, viewport: typeof PHONE): Promise<void> {
  await page.goto("about:blank"); // whatever was open, nothing of it is there
  await page.setViewportSize(viewport);
  await page.goto(addressOf(path));
}

test("on a narrow page tensors and classes come over the rows, and what is chosen there is seen", async () => {
  const page = await opened("pets");
  await expect.poll(() => page.getByRole("switch", { name: /^score/ }).isVisible()).toBe(false);

  await page.getByRole("button", { name: "Tensors and classes", exact: true }).click();
  await page.getByRole("switch", { name: /^score/ }).click();
  await expect.poll(() => new URL(page.url()).searchParams.get("hide")).toBe("score");
  await page.getByRole("button", { name: /^cat/ }).click();

  await expect.poll(() => count(page)).toBe("10 of 40 rows");
  await expect.poll(() => page.getByTestId("drawer").isVisible()).toBe(false);
});

test("on a telephone the panel leads to every layout", async () => {
  const page = await opened("clusters");
  for (const [layout, part] of [["table", "table"], ["map", "map"], ["grid", "grid"]] as const) {
    await page.getByRole("button", { name: "Tensors and classes" }).click();
    await page.getByTestId("drawer").getByRole("button", { name: `Show as ${layout}` }).click();

    await page.getByTestId(part).waitFor();
    await expect.poll(() => page.getByTestId("drawer").isVisible()).toBe(false);
  }
});

test("the panel of a narrow page is opened, walked and left with the keyboard alone", async () => {
  const page = await opened("pets");
  const drawer = page.getByTestId("drawer");
  await page.getByTestId("grid").focus();

  await page.keyboard.press("p");
  await drawer.getByRole("button", { name: /^cat/ }).waitFor();
  await expect.poll(() => findings(page)).toEqual([]);
  const inDrawer = "document.activeElement.closest('[data-testid=drawer]') !== null && document.activeElement.textContent";
  const walked: unknown[] = [];
  for (let i = 0; i < 21; i += 1) {
    walked.push(await page.evaluate(inDrawer));
    await page.keyboard.press("Tab");
  }
  expect(walked.some((text) => String(text).startsWith("cat"))).toBe(true);
  await page.keyboard.press("Escape");

  await expect.poll(() => drawer.isVisible()).toBe(false);
  await expect.poll(() => page.getByTestId("grid").evaluate((grid) => grid === document.activeElement)).toBe(true);
});

test("at every width all bars are whole, and a row has its place", async () => {
  const page = await open("", { viewport: PHONE });
  for (const viewport of [PHONE, { width: 760, height: 600 }, { width: 1080, height: 700 }, WALL]) {
    await resized(page, "scenes?row=0&compare=main@1", viewport);
    await page.locator("[data-testid=row-panel] table").waitFor();
    await page.getByRole("button", { name: "Differences" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByTestId("detail-view").waitFor();

    await expect.poll(() => page.evaluate(CUT_OFF), { message: `${viewport.width} px` }).toEqual([]);
    await expect.poll(() => page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    await expect.poll(async () => (await page.getByTestId("row-panel").boundingBox())?.height).toBeGreaterThan(200);
  }
});

/** Names of the row's tensors of which a word is broken. */
const BROKEN = `[...document.querySelectorAll("[data-testid=row-panel] th")].filter((cell) =>
  [...cell.childNodes].some((word) => {
    const range = document.createRange();
    range.selectNodeContents(word);
    return word.textContent !== "" && range.getClientRects().length > 1;
  })).map((cell) => cell.textContent)`;

test("the truth beside a prediction has all its controls at every width, and names are broken between words", async () => {
  const page = await opened("shapes?row=5&look=1&side=1");
  await page.getByTestId("matches").waitFor();
  for (const width of [390, 760, 761, 900, 1080, 1081, 1280, 1799, 1800, 2560]) {
    await page.setViewportSize({ width, height: 900 });

    await expect.poll(() => page.evaluate(CUT_OFF), { message: `${width} px` }).toEqual([]);
    await expect.poll(() => outside(page, ".detail-view .bar"), { message: `${width} px` }).toEqual([]);
    await expect.poll(() => page.evaluate(BROKEN), { message: `${width} px` }).toEqual([]);
    await expect.poll(async () => (await page.locator(".detail-view canvas").boundingBox())?.height).toBeGreaterThan(300);
  }
});

test("much and odd content has its place on a telephone and on a wall: long words, NULLs, fifty tensors, a thousand classes", async () => {
  const page = await open("values?row=0", { viewport: PHONE });
  for (const path of ["values?row=0", "values?row=1", "wide?row=0", "classes?row=0"]) {
    for (const viewport of [PHONE, WALL]) {
      await page.setViewportSize(viewport);
      await page.goto(addressOf(path));
      await page.locator("[data-testid=row-panel] table").waitFor();

      const place = { message: `${path} ${viewport.width} px` };
      await expect.poll(() => page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place).toBe(true);
      await expect.poll(() => outside(page, "[data-testid=row-panel], [data-testid=row-panel] td, .schema"), place).toEqual([]);
      await expect.poll(() => page.evaluate(CUT_OFF), place).toEqual([]);
    }
  }
});

/** What of a part lies outside the page, or is wider than its place. */
const outside = (page: Page, part: string) =>
  page.locator(part).evaluateAll((all) =>
    all
      .filter((one) => one.checkVisibility())
      .filter((one) => one.getBoundingClientRect().left < 0 || one.getBoundingClientRect().right > innerWidth || one.scrollWidth > one.clientWidth)
      .map((one) => one.textContent),
  );

test("classes and the histogram are read whole and filter by the keyboard alone at every width", async () => {
  const page = await open("", { viewport: PHONE });
  for (const viewport of [PHONE, EDGE, WALL]) {
    await resized(page, "scenes", viewport);
    await expect.poll(() => cellPixel(page, 0, 40, 20)).not.toBeNull();
    await page.getByTestId("grid").focus();
    await page.keyboard.press("p");
    const bar = page.getByRole("button", { name: /^Rows with width of image/, disabled: false }).last();
    await bar.waitFor();
    await expect.poll(() => outside(page, ".schema, .schema .class, .schema [role=group]"), { message: `${viewport.width} px` }).toEqual([]);

    await bar.focus();
    await page.keyboard.press("Enter");

    await expect.poll(() => new URL(page.url()).searchParams.get("q")).toContain("SHAPE(image)[1] ");
    await expect.poll(() => count(page)).toMatch(/^\d+ of 19 rows$/);
  }
});

test("a view is given a name and opened by the keyboard alone at every width", async () => {
  const page = await open("", { viewport: PHONE });
  for (const viewport of [PHONE, EDGE, WALL]) {
    const name = `at-${viewport.width}`;
    await resized(page, "named", viewport);
    await expect.poll(() => count(page)).toBe("7 rows");
    await query(page, "WHERE x > 4");
    await expect.poll(() => count(page)).toBe("2 of 7 rows");

    await page.getByRole("button", { name: "Saved views" }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel("Name of the new view").fill(name);
    await page.keyboard.press("Enter");
    const saved = page.getByRole("menuitem", { name: new RegExp(`^${name} 2 rows`) });
    await saved.waitFor();
    await expect.poll(() => outside(page, ".panel, .panel form"), { message: name }).toEqual([]);
    await saved.focus();
    await page.keyboard.press("Enter");

    await expect.poll(() => new URL(page.url()).searchParams.get("view")).toBe(name);
    await expect.poll(() => count(page)).toBe("2 of 7 rows");
  }
});

test("a narrow page gives its rows the place of a row that is not chosen", async () => {
  const page = await opened("pets");
  const height = async () => (await page.getByTestId("grid").boundingBox())?.height ?? 0;
  const whole = await height();

  await page.keyboard.press("j");

  await expect.poll(height).toBeLessThan(0.7 * whole);
});

test("on a narrow page a row is left by a press, where there is no Esc", async () => {
  const page = await opened("pets?row=1");

  await page.getByRole("button", { name: "Close the row" }).click();

  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBeNull();
});

/** How high a part of the page is. */
const heightOf = (page: Page, part: string) => page.locator(part).evaluate((one) => one.getBoundingClientRect().height);

test("on a telephone each bar is one line, and so are two versions that are compared", async () => {
  const page = await opened("scenes?compare=main@1");
  await page.getByRole("button", { name: "Differences" }).waitFor();

  await expect.poll(() => heightOf(page, ".page > header")).toBeLessThan(50);
  await expect.poll(() => heightOf(page, ".query")).toBeLessThan(50);
  await expect.poll(() => page.evaluate(CUT_OFF)).toEqual([]);
  await expect.poll(() => findings(page)).toEqual([]);
});

test("on a telephone a short list of changes is as short as it is, and the images have its place", async () => {
  const page = await open("relabelled?compare=main@1&diff=side", { viewport: PHONE });
  const diff = page.getByTestId("diff");
  await expect.poll(() => diff.getByRole("option").count()).toBe(1);
  await page.getByTestId("diff-image").waitFor();

  await expect.poll(async () => (await diff.getByRole("listbox").boundingBox())?.height).toBe(52);
  await expect.poll(async () => (await page.getByTestId("diff-image").boundingBox())?.height).toBeGreaterThan(300);
  await expect.poll(() => findings(page)).toEqual([]);
});

test("on a telephone two versions lie one above the other, each as wide as the page", async () => {
  const page = await open("edits?compare=main@1&diff=side&change=0", { viewport: PHONE });
  const tops = () => page.locator("[data-testid=diff-image] .name").evaluateAll((all) => all.map((one) => one.getBoundingClientRect()).map(({ left, top }) => [left, top]));
  const apart = async () => {
    const [before, after] = await tops();
    return before?.[0] === after?.[0] && (after?.[1] ?? 0) - (before?.[1] ?? 0) > 100;
  };

  await expect.poll(apart).toBe(true);
  await page.keyboard.press("s");
  await expect.poll(apart).toBe(false);
});

test("on a telephone a close look has the whole page, and the row comes back after it", async () => {
  const page = await opened("pets?row=1");
  await page.getByTestId("row-panel").getByRole("button", { name: /row 1$/ }).click();

  await expect.poll(async () => (await page.getByTestId("detail-view").boundingBox())?.height).toBeGreaterThan(600);
  await expect.poll(() => page.getByTestId("row-panel").evaluate((one) => (one as HTMLElement).inert)).toBe(true);
  await expect.poll(() => findings(page)).toEqual([]);
  await page.getByTestId("detail-view").getByRole("button", { name: "Close" }).click();

  await expect.poll(() => page.getByTestId("row-panel").evaluate((one) => (one as HTMLElement).inert)).toBe(false);
});
