/** The panels beside the rows fold and resize, and stay so. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { count, open } from "./browser";

const widthOf = async (page: Page, part: string) => Math.round((await page.locator(part).boundingBox())?.width ?? 0);
const ROWS = "[data-testid=grid]";
const ROW = "[data-testid=row-panel]";

test("both panels fold by a key and by a click, and the rows take their place", async () => {
  const page = await open("pets?row=1");
  await page.locator(`${ROW} table`).waitFor();
  expect([await widthOf(page, ".schema"), await widthOf(page, ROWS), await widthOf(page, ROW)]).toEqual([240, 680, 360]);

  await page.keyboard.press("[");
  await expect.poll(() => widthOf(page, ROWS)).toBe(920);
  await page.keyboard.press("]");
  await expect.poll(() => widthOf(page, ROWS)).toBe(1280);
  expect(await findings(page)).toEqual([]);
  await page.keyboard.press("Enter"); // the row is read, folded or not
  await expect.poll(async () => (await page.locator("[data-testid=detail-view] canvas").boundingBox())?.width).toBe(1280);
  await page.keyboard.press("Escape");
  await page.reload();
  await expect.poll(() => widthOf(page, ROWS)).toBe(1280); // folded in this browser until they are unfolded

  await page.getByRole("button", { name: "Unfold the selected row" }).click();
  await page.keyboard.press("p"); // goes to a panel, which must be there
  await expect.poll(() => widthOf(page, ROWS)).toBe(680);
  await expect.poll(() => page.evaluate("document.activeElement.closest('.schema') !== null")).toBe(true);
});

test("an edge is dragged, moved by arrows, and put back by a double click", async () => {
  const page = await open("pets?row=1");
  await page.locator(`${ROW} table`).waitFor();
  const edge = page.getByTestId("edge-right");
  const { x = 0, y = 0, width = 0 } = (await edge.boundingBox()) ?? {};

  await page.mouse.move(x + width / 2, y + 40);
  await page.mouse.down();
  await page.mouse.move(800, y + 40, { steps: 4 });
  await page.mouse.up();
  await expect.poll(() => widthOf(page, ROW)).toBe(480);
  await edge.getByRole("separator").focus();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => widthOf(page, ROW)).toBe(496);
  await expect.poll(() => edge.getByRole("separator").getAttribute("aria-valuenow")).toBe("496");
  await page.keyboard.press("Enter");
  await expect.poll(() => edge.getByRole("separator").getAttribute("aria-valuenow")).toBe("0");
  await page.keyboard.press("Enter");
  await expect.poll(() => widthOf(page, ROW)).toBe(496);

  await edge.getByRole("separator").dblclick({ position: { x: 1, y: 20 } });
  await expect.poll(() => widthOf(page, ROW)).toBe(360);
  expect(await count(page)).toBe("40 rows");
});

test("a panel that is dragged to the border folds, and one that is too wide for a page is narrowed", async () => {
  const page = await open("pets?row=1");
  await page.locator(`${ROW} table`).waitFor();
  const { x = 0, y = 0, width = 0 } = (await page.getByTestId("edge-left").boundingBox()) ?? {};

  await page.mouse.move(x + width / 2, y + 40);
  await page.mouse.down();
  await page.mouse.move(520, y + 40, { steps: 4 });
  await expect.poll(() => widthOf(page, ".schema")).toBe(520);
  await page.setViewportSize({ width: 800, height: 700 });
  await expect.poll(() => widthOf(page, ".schema")).toBe(360);
  await page.mouse.move(30, y + 40, { steps: 4 });
  await page.mouse.up();

  await expect.poll(() => page.locator(".schema").count()).toBe(0);
  await page.setViewportSize({ width: 700, height: 700 }); // one column, where nothing folds
  await expect.poll(() => widthOf(page, ROW)).toBe(700);
});
