/** One row looked at: its values whole, its boxes against a model's, its code. */
import { expect, test } from "vitest";
import { open, pixel } from "./browser";

test("long text is read whole, from right to left where it is written so", async () => {
  const page = await open("values?row=0");

  await page.getByRole("button", { name: "Full value of caption" }).click();

  const text = page.locator("[data-testid=row-panel] [dir=auto]");
  await expect.poll(async () => (await text.innerText()).length).toBeGreaterThan(300);
  await expect.poll(() => text.evaluate((element) => getComputedStyle(element).direction)).toBe("rtl");
});

test("JSON is a tree", async () => {
  const page = await open("values?row=0");

  await page.getByRole("button", { name: "Full value of meta" }).click();

  const leaf = page.getByText("exposure", { exact: true });
  await leaf.waitFor();
  await page.locator("summary", { hasText: "camera" }).click();
  await expect.poll(() => leaf.isVisible()).toBe(false);
});

test("a plane is a heat map, from its least to its largest number", async () => {
  const page = await open("values?row=0");

  await page.getByRole("button", { name: "Full value of plane" }).click();

  const canvas = page.getByRole("img", { name: "Heat map of plane" }).locator("canvas");
  await expect.poll(() => canvas.evaluate((element) => (element as HTMLCanvasElement).width)).toBe(6);
  const ends = () =>
    canvas.evaluate((element) => {
      const context = (element as HTMLCanvasElement).getContext("2d");
      return [context?.getImageData(0, 0, 1, 1).data, context?.getImageData(5, 3, 1, 1).data].map((data) => [...(data ?? [])]);
    });
  await expect.poll(ends).toEqual([[22, 20, 62, 255], [253, 240, 120, 255]]);
  await expect.poll(() => page.getByTestId("array-view").innerText()).toContain("0 to 23");
});

test("a vector is a plot, and its numbers when asked", async () => {
  const page = await open("values?row=0");

  await page.getByRole("button", { name: "Full value of vector" }).click();
  await page.getByRole("img", { name: "Plot of vector" }).waitFor();
  await page.getByRole("button", { name: "Full value of tokens" }).click();
  await page.getByTestId("array-view").last().getByRole("button", { name: "numbers" }).click();

  await expect.poll(() => page.getByTestId("array-view").last().innerText()).toContain("7,592");
});

test("a row of NULLs says so in every line", async () => {
  const page = await open("values?row=1");

  await expect.poll(() => page.locator("[data-testid=row-panel] td.null").allInnerTexts()).toEqual(Array(8).fill("NULL"));
});

test("predictions are matched with the truth, over each other and side by side", async () => {
  const page = await open("shapes?row=5&look=1");

  await expect.poll(() => page.getByTestId("matches").innerText()).toBe("1 matched · 0 missed · 1 extra");
  await page.getByRole("button", { name: "Side by side" }).click();

  await page.getByText("predicted", { exact: true }).waitFor();
  await expect.poll(() => new URL(page.url()).searchParams.get("side")).toBe("1");
});

test("buttons lead from row to row, and the look stays", async () => {
  const page = await open("shapes?row=0&look=1");

  await page.getByRole("button", { name: "Next row" }).click();
  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBe("1");
  await page.getByRole("button", { name: "Previous row" }).click();

  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBe("0");
  await expect.poll(() => page.getByRole("button", { name: "Previous row" }).isDisabled()).toBe(true);
  await expect.poll(() => page.getByTestId("detail-view").count()).toBe(1);
});

test("the query of a row answers that row", async () => {
  const page = await open("shapes?row=3");

  await expect.poll(() => page.getByTestId("tql").innerText()).toBe("SELECT * WHERE ROW_NUMBER() = 3");
});

test("an image is enlarged, moved and shown whole again by keys", async () => {
  const page = await open("shapes?row=0&look=1");
  const canvas = "[data-testid=detail-view] canvas";
  const middle = async () => {
    const { width, height } = await page.locator(canvas).evaluate((one: HTMLCanvasElement) => ({ width: one.width, height: one.height }));
    return pixel(page, canvas, width >> 1, height >> 1);
  };
  const isColoured = async () => new Set(await middle()).size > 1;
  await expect.poll(isColoured).toBe(true); // the mask, over grey
  const inMask = await middle();
  const scale = () => page.getByTestId("scale").innerText();
  const whole = await scale();

  for (let i = 0; i < 3; i += 1) await page.keyboard.press("+");
  await expect.poll(scale).not.toBe(whole);
  for (let i = 0; i < 8; i += 1) await page.keyboard.press("Shift+ArrowDown");
  await expect.poll(isColoured).toBe(false); // below it
  expect(new URL(page.url()).searchParams.get("row")).toBe("0");
  await page.keyboard.press("0");

  await expect.poll(scale).toBe(whole);
  await expect.poll(middle).toEqual(inMask);
});

test("JSON of two hundred levels opens level by level", async () => {
  const page = await open("odd?row=0");

  await page.getByRole("button", { name: "Full value of meta" }).click();

  const levels = page.getByTestId("row-panel").locator("summary:has(.name)");
  await expect.poll(() => levels.count()).toBe(3);
  await levels.last().click();
  await expect.poll(() => levels.count()).toBe(4);
});

test("a year is written as one", async () => {
  const page = await open("odd?row=0");

  await page.getByTestId("row-panel").getByText("2008", { exact: true }).waitFor();
});

test("an image of which half is missing is not shown as if it were whole", async () => {
  const page = await open("odd?row=1", { expected: ["status of 500"] });

  await expect.poll(() => page.locator("#row-1 .missing").innerText()).toContain("premature end");
  await expect.poll(() => page.getByTestId("row-panel").getByRole("alert").innerText()).toContain("premature end");
  await expect.poll(() => page.locator("[data-testid=row-panel] img").isVisible()).toBe(false);
  await page.keyboard.press("Enter");

  await expect.poll(() => page.getByTestId("detail-view").getByRole("alert").innerText()).toContain("premature end");
});
