/** The pages that docs/tutorial/look-at-data.md shows; tests/viewer/test_viewer.py compares them with its images. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { addressOf, open, pixel } from "./browser";

const PAGES: [string, string, (page: Page) => Promise<unknown>][] = [
  ["grid", "scenes?row=8", (page) => page.locator("[data-testid=row-panel] table").waitFor()],
  ["close", "scenes?row=3&look=1", (page) => page.getByText(/%$/).first().waitFor()],
  ["difference", "scenes?compare=main@1&diff=side&change=0", (page) => page.getByTestId("diff-image").waitFor()],
  ["map", "digits?mode=map", (page) => expect.poll(async () => Number(await page.getByTestId("map").getAttribute("data-drawn-ms"))).toBeGreaterThan(0)],
  ["mistakes", "digits?mode=mistakes", (page) => page.getByText(/^\d+ likely mistakes/).waitFor()],
  ["step", "scenes?mode=step&run=resnet&step=10&row=2", (page) => page.getByTestId("seen").getByRole("slider", { name: "loss over steps" }).waitFor()],
  ["views", "scenes?view=crossings", (page) => page.getByText("of 19 rows").waitFor()],
];

/** Whether all images in sight are drawn, and letters are in their own font. */
const IS_STILL = `document.fonts.status === "loaded" && [...document.images].every((image) => image.complete || image.getBoundingClientRect().top > innerHeight) &&
  [...document.querySelectorAll(".cell.blank")].every((cell) => cell.getBoundingClientRect().top > innerHeight)`;

test("the pages of the tour can be photographed", async () => {
  const folder = process.env.SHOTS;
  const page = await open("");
  for (const [name, path, ready] of PAGES) {
    await page.goto(addressOf(path));
    await ready(page);
    await expect.poll(() => page.evaluate(IS_STILL)).toBe(true);
    if (name === "close") await expect.poll(() => pixel(page, "[data-testid=detail-view] canvas", 300, 300)).not.toBeNull();
    if (name === "difference") await expect.poll(() => pixel(page, "[data-testid=diff-image] canvas", 200, 200)).not.toBeNull();
    await page.waitForLoadState("networkidle");
    if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, animations: "disabled" });
  }
});
