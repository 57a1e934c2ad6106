/** Deep images, of 16 bits or real numbers: all of their values are seen, through one window for all of them. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { addressOf, cellPixel, open, pixel } from "./browser";

const CANVAS = "[data-testid=detail-view] canvas";

/** The grey at a share of the width of the image in the detail view, which it fills. */
async function grey(page: Page, share: number): Promise<number | null> {
  const { width = 0, height = 0 } = (await page.locator(CANVAS).boundingBox()) ?? {};
  const shown = Math.min(width, (height * 160) / 120);
  const found = await pixel(page, CANVAS, (width - shown) / 2 + share * shown, height / 2);
  return found?.[0] ?? null;
}

test.each([["scan", "0", "3,975"], ["depth", "0", "1"], ["side", "-2,000", "1,975"]])("%s is seen from its darkest to its brightest value", async (image, low, high) => {
  const page = await open(`scans?row=0&look=1&image=${image}`);

  await expect.poll(() => grey(page, 0.99)).toBeGreaterThan(250);
  expect(await grey(page, 0.01)).toBeLessThan(5);
  expect(Math.abs(((await grey(page, 0.5)) ?? 0) - 127)).toBeLessThan(8);
  const bar = page.getByTestId("window");
  await expect.poll(() => bar.locator("output").allInnerTexts()).toEqual([low, high]);
});

test("a thumb moves black or white, in the detail view, the row and the grid, and the link keeps it", async () => {
  const page = await open("scans?row=0&look=1&image=scan");
  await expect.poll(() => grey(page, 0.5)).toBeGreaterThan(100);
  const black = page.getByRole("slider", { name: "Black: value of scan" });

  await black.fill("2400");
  await expect.poll(() => grey(page, 0.5)).toBe(0);
  expect(await grey(page, 0.99)).toBeGreaterThan(250);
  await expect.poll(() => new URL(page.url()).searchParams.get("window")).toBe("scan:2400,3975");
  await black.focus();
  await page.keyboard.press("End"); // black stays below white
  await expect.poll(() => black.inputValue()).toMatch(/^39\d\d$/);
  await page.goto(addressOf("scans?row=0&window=scan:0,400&hide=depth,side"));
  await expect.poll(() => cellPixel(page, 0, 60, 40).then((color) => color?.[0])).toBe(255); // 400 is a tenth of the way
  await expect.poll(() => cellPixel(page, 0, 2, 40).then((color) => color?.[0] ?? 255)).toBeLessThan(60);
  await page.keyboard.press("Enter");
  await expect.poll(() => grey(page, 0.5)).toBe(255);

  await page.getByTestId("window").getByRole("button", { name: "Auto" }).click();
  await expect.poll(() => grey(page, 0.5)).toBeLessThan(140);
  await expect.poll(() => new URL(page.url()).searchParams.get("window")).toBeNull();
  expect(await findings(page)).toEqual([]);
});

test("an image of eight bits has no window, and NULL none either", async () => {
  const page = await open("pets?row=1&look=1");
  await expect.poll(() => pixel(page, CANVAS, 300, 300)).not.toBeNull();
  expect(await page.getByTestId("window").count()).toBe(0);

  await page.goto(addressOf("scans?row=2&look=1&image=side"));
  await page.getByText("The image of this row is NULL").waitFor();
  expect(await page.getByTestId("window").count()).toBe(0);
});
