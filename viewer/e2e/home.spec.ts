/** The page of all datasets. */
import { expect, test } from "vitest";
import { findings } from "./axe";
import { count, open } from "./browser";

test("home shows each dataset with its rows, size, age, kinds and first images", async () => {
  const page = await open("");
  const card = page.getByRole("button", { name: /^pets/ });
  await card.scrollIntoViewIfNeeded(); // a card asks once it is in sight

  await expect.poll(() => card.innerText()).toMatch(/pets\s+40 rows · .*B · .*(ago|now|yesterday)\s+image, bbox, class label, scalar/);
  await expect.poll(() => card.locator("canvas").evaluateAll((images) => images.map((image) => (image as HTMLCanvasElement).width))).toEqual([120, 120, 120, 120]);
});

test("home finds datasets by name, and a click opens one", async () => {
  const page = await open("");

  await page.getByLabel("Find a dataset").fill("cam");
  await expect.poll(() => page.getByRole("main").getByRole("listitem").count()).toBe(1);
  await expect.poll(() => page.getByRole("status").innerText()).toMatch(/^1 of \d+ datasets$/);
  await page.getByRole("button", { name: /^cameras/ }).click();

  await expect.poll(() => count(page)).toBe("3 rows");
});

test("home fits a telephone and a wall, and has no serious fault of access", async () => {
  for (const width of [390, 2560]) {
    const page = await open("", { viewport: { width, height: 900 } });
    await expect.poll(() => page.getByRole("button", { name: /^aspects/ }).innerText()).toContain("6 rows");
    await expect.poll(() => page.getByRole("main").evaluate((main) => main.scrollWidth <= main.clientWidth)).toBe(true);
    await expect.poll(() => findings(page), { message: `${width} px` }).toEqual([]);
  }
});
