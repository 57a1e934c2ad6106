/** What differs between two versions, as a person sees it. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { count, open, pixel } from "./browser";

const CANVAS = "[data-testid=diff-image] canvas";

/** The place of a pixel of the sample (160 × 120) on the canvas, in one half or in the whole. */
async function onCanvas(page: Page, x: number, y: number, half: "before" | "after" | "whole"): Promise<[number, number]> {
  const { width, height } = await page.locator(CANVAS).evaluate((element) => {
    const canvas = element as HTMLCanvasElement;
    return { width: canvas.width, height: canvas.height };
  });
  const pane = half === "whole" ? width : width / 2;
  const scale = Math.min(pane / 160, height / 120);
  const left = (pane - 160 * scale) / 2 + (half === "after" ? pane : 0);
  return [Math.round(left + x * scale), Math.round((height - 120 * scale) / 2 + y * scale)];
}

/** Whether a line in a class colour is drawn there, not the grey of the image. */
async function isLine(page: Page, x: number, y: number, half: "before" | "after" | "whole"): Promise<boolean> {
  const color = await pixel(page, CANVAS, ...(await onCanvas(page, x, y, half)));
  return color !== null && Math.max(...color) - Math.min(...color) > 60;
}

test("from rows to what differs by one key, and every change is in the list", async () => {
  const page = await open("edits?compare=main@1");
  await expect.poll(() => count(page)).toBe("4 rows");
  await expect.poll(() => page.getByTestId("comparison").count()).toBe(1);

  await page.keyboard.press("d");

  const diff = page.getByTestId("diff");
  await expect.poll(() => diff.getByRole("option").count()).toBe(4);
  const words = async () => (await diff.getByRole("option").allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim());
  await expect.poll(words).toEqual(["~ row 0 changed boxes", "~ row 1 changed labels", "+ row 3 added", "− row 3 removed"]);
  await page.keyboard.press("Escape");
  await expect.poll(() => diff.count()).toBe(0);
});

test("a box that moved is where it was and where it is, side by side", async () => {
  const page = await open("edits?compare=main@1&diff=side&change=0");

  await expect.poll(() => isLine(page, 100, 40, "before").catch(() => false)).toBe(true); // its left edge
  await expect.poll(() => isLine(page, 90, 40, "after")).toBe(true);
  await expect.poll(() => isLine(page, 90, 40, "before")).toBe(false);
  await expect.poll(() => isLine(page, 20, 50, "before")).toBe(true); // the other box stayed
  await expect.poll(() => isLine(page, 20, 50, "after")).toBe(true);
});

test("one version is swiped over the other", async () => {
  const page = await open("edits?compare=main@1&diff=swipe&change=0");
  const slider = page.getByRole("slider", { name: /^Swipe/ });

  await slider.fill("100");
  await expect.poll(() => isLine(page, 100, 40, "whole")).toBe(true);
  await expect.poll(() => isLine(page, 90, 40, "whole")).toBe(false);
  await slider.fill("0");

  await expect.poll(() => isLine(page, 90, 40, "whole")).toBe(true);
  await expect.poll(() => new URL(page.url()).searchParams.get("diff")).toBe("swipe");
});

test("the values of a change stand beside each other, what differs first", async () => {
  const page = await open("edits?compare=main@1&diff=side&change=1");

  const first = page.getByTestId("diff-table").locator("tbody tr").first();
  await expect.poll(async () => (await first.innerText()).replace(/\s+/g, " ")).toBe("labels1 relabelled cat × 2 cat, dog");
});

test("a change that is drawn nowhere is said on both images", async () => {
  const page = await open("relabelled?compare=main@1&diff=side");
  const said = async (side: string) => (await page.getByTestId(`notes-${side}`).innerText()).replace(/\s+/g, " ");

  await expect.poll(() => said("before")).toBe("label cat becomes dog");
  await expect.poll(() => said("after")).toBe("label dog was cat");
  await page.keyboard.press("s");

  await expect.poll(() => new URL(page.url()).searchParams.get("diff")).toBe("swipe");
  await expect.poll(() => said("after")).toBe("label dog was cat");
});

test("the table says what became of the shapes", async () => {
  const page = await open("edits?compare=main@1&diff=side&change=0");

  const first = page.getByTestId("diff-table").locator("tbody tr").first();
  await expect.poll(async () => (await first.innerText()).replace(/\s+/g, " ")).toContain("boxes1 moved");
});

test("j and k go from change to change, and only one kind can be looked at", async () => {
  const page = await open("edits?compare=main@1&diff=side");
  const diff = page.getByTestId("diff");
  await expect.poll(() => diff.getByRole("option").count()).toBe(4);

  for (const key of ["j", "j", "k"]) await page.keyboard.press(key);
  await expect.poll(() => new URL(page.url()).searchParams.get("change")).toBe("1");
  await diff.getByRole("button", { name: /^removed/ }).click();

  await expect.poll(() => diff.getByRole("option").count()).toBe(1);
  await page.getByText("not in main@2").waitFor();
  await expect.poll(() => new URL(page.url()).searchParams.get("only")).toBe("removed");
});

test("only the shapes that changed are drawn when asked", async () => {
  const page = await open("edits?compare=main@1&diff=side&change=0");
  await expect.poll(() => isLine(page, 20, 50, "after").catch(() => false)).toBe(true);

  await page.getByLabel("only shapes that changed").check();

  await expect.poll(() => isLine(page, 20, 50, "after")).toBe(false);
  await expect.poll(() => isLine(page, 90, 40, "after")).toBe(true);
});
