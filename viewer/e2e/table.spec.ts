/** Rows without images are a table; tests/viewer/lakes.py made 2,000 people. */
import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { count, open } from "./browser";

const cells = (page: Page, row: number) => page.locator(`#row-${row} [role=gridcell]`).allInnerTexts();
/** Clicks what may be out of sight; its focus scrolls the columns there. */
async function press(target: Locator): Promise<void> {
  await target.focus();
  await target.click();
}
const header = (page: Page, name: string) => page.getByRole("columnheader").filter({ hasText: name });

test("plain values are a table: numbers at the right, years without separators, NULL in its place", async () => {
  const page = await open("people");

  await expect.poll(() => cells(page, 1)).toEqual(["1", "person 0001", "21", "1951", "blue", "1,000.5", "4 · 4, 5, 6, 7"]);
  await expect.poll(() => cells(page, 3)).toContain("NULL");
  const align = (column: number) => page.locator("#row-1 [role=gridcell]").nth(column).evaluate((cell) => getComputedStyle(cell).textAlign);
  expect(await align(2)).toBe("right");
  expect(await align(1)).not.toBe("right");
  const end = (part: string) => page.locator(part).evaluate((one) => Math.round(one.getBoundingClientRect().right));
  expect(await end("[role=columnheader]:nth-child(3) .name")).toBe((await end("#row-1 [role=gridcell]:nth-child(3)")) - 10); // less the cell's padding
});

test("a click on a column sorts by it, another the other way, a third as stored", async () => {
  const page = await open("people?q=WHERE team = 'blue'");
  await expect.poll(() => count(page)).toBe("1,000 of 2,000 rows");
  const sort = () => press(header(page, "score").getByRole("button", { name: "score", exact: true }));

  await sort();
  await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBe("WHERE team = 'blue' ORDER BY score ASC");
  await expect.poll(() => header(page, "score").getAttribute("aria-sort")).toBe("ascending");
  await sort();
  await expect.poll(async () => (await cells(page, 0))[1]).toBe("person 1999");
  await sort();
  await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBe("WHERE team = 'blue'");
  await expect.poll(async () => (await cells(page, 0))[1]).toBe("person 0001");
});

test("columns are pinned and resized, and keys and scrolling reach every row", async () => {
  const page = await open("people", { viewport: { width: 900, height: 600 } });
  await page.locator("#row-0").waitFor();

  await press(page.getByRole("button", { name: "Pin score" }));
  await expect.poll(() => page.getByRole("columnheader").nth(1).innerText()).toContain("score");
  const width = async () => (await header(page, "name").boundingBox())?.width ?? 0;
  const before = await width();
  await page.getByRole("separator", { name: "Width of name" }).press("ArrowRight");
  await expect.poll(width).toBe(before + 16);
  const table = await page.getByTestId("table").boundingBox();
  const panel = await page.getByTestId("row-panel").boundingBox();
  expect((table?.x ?? 0) + (table?.width ?? 0)).toBeLessThanOrEqual(panel?.x ?? 0);
  await page.getByTestId("grid").evaluate((table) => table.scrollBy(400, 0));
  const left = async () => (await page.locator("#row-0 [role=gridcell]").nth(1).boundingBox())?.x ?? 0;
  await expect.poll(async () => Math.abs((await left()) - ((await header(page, "score").boundingBox())?.x ?? 0))).toBeLessThan(1);

  await page.keyboard.press("End");
  await expect.poll(() => page.locator("#row-1999").count()).toBe(1);
  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBe("1999");
  await expect.poll(() => page.locator("#row-1999").getAttribute("aria-selected")).toBe("true");
});

test("any dataset is shown as a grid or a table, and the URL says which", async () => {
  const page = await open("pets");
  await page.locator("#row-0").waitFor();

  await page.getByRole("button", { name: "Show as table" }).click();

  await expect.poll(() => cells(page, 1)).toEqual(["1", "1 × 4, xywh", "cat", "0.025641"]);
  await expect.poll(() => new URL(page.url()).searchParams.get("mode")).toBe("table");
  await page.getByRole("button", { name: "Show as grid" }).click();
  await page.locator("#row-0").waitFor();
  expect(new URL(page.url()).searchParams.get("mode")).toBeNull();
});

test("a table has no serious fault of access, in light and dark", async () => {
  for (const theme of ["light", "dark"] as const) {
    const page = await open("people?row=2", { theme });
    await expect.poll(async () => (await cells(page, 2)).length).toBe(7);
    await expect.poll(() => findings(page), { message: theme }).toEqual([]);
  }
});

test("a new commit offers itself, and is shown at the same place", async () => {
  const page = await open("growing?row=2");
  await expect.poll(() => count(page)).toBe("5 rows");
  const body = JSON.stringify({ operations: [{ op: "append", columns: { x: [5, 6] } }], message: "two more" });
  const status = await page.evaluate((sent) => fetch("/v1/datasets/growing/transactions", { method: "POST", body: sent, headers: { "Content-Type": "application/json" } }).then((answer) => answer.status), body);
  expect(status).toBe(200);

  const news = page.getByTestId("news");
  await expect
    .poll(async () => {
      await page.evaluate(() => window.dispatchEvent(new Event("focus"))); // the page is looked at again
      return news.count();
    })
    .toBe(1);
  expect(await news.innerText()).toContain("1 new commit");
  await news.click();

  await expect.poll(() => count(page)).toBe("7 rows");
  await expect.poll(() => news.count()).toBe(0);
  expect(new URL(page.url()).searchParams.get("row")).toBe("2");
});
