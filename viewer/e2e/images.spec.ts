/** Every image of a row is seen, whole, and so is each of its boxes; tests/viewer/lakes.py made them with NumPy. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { cellPixel, open } from "./browser";

type Color = number[] | null;
const isBlue = (color: Color) => color !== null && [78, 155, 255].every((part, i) => Math.abs(part - (color[i] ?? 0)) < 40); // the first class
const isRed = (color: Color) => color !== null && (color[0] ?? 0) > 150 && (color[2] ?? 255) < 60;
const isDark = (color: Color) => color !== null && (color[2] ?? 0) > 150 && (color[0] ?? 255) < 60;

/** Widths and heights, in the order of the rows. */
const ASPECTS = [[90, 240], [128, 128], [640, 64], [1, 1], [3, 12_000], [160, 120]] as const;

/** Where a whole image lies in the area for images of a cell: [x, y] of one of its points. */
async function placeIn(page: Page, row: number, [width, height]: readonly [number, number]): Promise<(x: number, y: number) => [number, number]> {
  const [cellWidth, cellHeight] = await page.evaluate<[number, number]>(`(() => {
    const cell = document.querySelector("#row-${row}").getBoundingClientRect();
    const line = [...document.querySelectorAll(".line")].find((one) => one.getBoundingClientRect().top === cell.top);
    return [cell.width, line.getBoundingClientRect().height];
  })()`);
  const scale = Math.min(cellWidth / width, cellHeight / height);
  return (x, y) => [(cellWidth - width * scale) / 2 + x * scale, (cellHeight - height * scale) / 2 + y * scale];
}

test("an image that is less than a pixel wide is a line in the detail view", async () => {
  const page = await open("aspects?row=4&look=1&hide=boxes"); // 3 × 12,000
  const lines = () =>
    page.locator("[data-testid=detail-view] canvas").evaluate((element) => {
      const canvas = element as HTMLCanvasElement;
      const data = canvas.getContext("2d")?.getImageData(0, canvas.height >> 1, canvas.width, 1).data ?? [];
      return [...data].filter((alpha, i) => i % 4 === 3 && alpha > 100).length;
    });

  await expect.poll(lines).toBeGreaterThan(0);
});

test("no box is outside of its cell, whatever the shape of the image", async () => {
  const page = await open("aspects");
  await expect.poll(() => cellPixel(page, 0, 84, 60)).not.toBeNull();

  for (const [row, [width, height]] of ASPECTS.entries()) {
    const at = await placeIn(page, row, [width, height]);
    const [left, top] = at(0, 0);
    const [right, bottom] = at(width, height);
    // One pixel inside of each edge of the image, where the boxes of its corners are drawn.
    const corners = [[left + 0.5, top + 0.5], [right - 0.5, top + 0.5], [left + 0.5, bottom - 0.5], [right - 0.5, bottom - 0.5]] as const;
    for (const [x, y] of corners) {
      await expect.poll(async () => isBlue(await cellPixel(page, row, x, y)), { message: `row ${row}, ${x}, ${y}` }).toBe(true);
    }
  }
});

test("a caption lies below its image and covers nothing of it", async () => {
  const page = await open("aspects");
  await expect.poll(() => cellPixel(page, 5, 84, 60)).not.toBeNull();

  const overlap = await page.evaluate(`(() => {
    const cell = document.querySelector("#row-5").getBoundingClientRect();
    const line = [...document.querySelectorAll(".line")].find((one) => one.getBoundingClientRect().top === cell.top);
    return line.getBoundingClientRect().bottom - document.querySelector("#row-5 .caption").getBoundingClientRect().top;
  })()`);

  expect(overlap).toBeLessThanOrEqual(0);
});

test("a tall image leaves the values of its row in sight", async () => {
  const page = await open("aspects?row=4"); // 3 × 12,000
  const value = page.getByTestId("row-panel").getByText("3 by 12000");
  await page.locator("[data-testid=row-panel] img").waitFor();
  await expect.poll(() => page.locator("[data-testid=row-panel] img").evaluate((image) => (image as HTMLImageElement).naturalHeight)).toBeGreaterThan(0);

  const bottom = async () => (await value.boundingBox())?.y ?? Infinity;
  await expect.poll(bottom).toBeLessThan(800);
  await expect.poll(() => page.getByTestId("row-panel").evaluate((panel) => panel.scrollHeight)).toBeLessThan(1600);
});

test("a cell shows every camera of its row, each with its own boxes", async () => {
  const page = await open("cameras?zoom=3");
  const across = async (share: number, down: number) => {
    const [width, height] = await page.evaluate<[number, number]>(`(() => {
      const cell = document.querySelector("#row-0").getBoundingClientRect();
      return [cell.width, document.querySelector(".line").getBoundingClientRect().height];
    })()`);
    return cellPixel(page, 0, share * width, down * height);
  };

  // Two tiles of 160 × 120: beside each other, or below each other.
  const isSeen = async (find: (color: Color) => boolean) => find(await across(0.3, 0.35)) || find(await across(0.7, 0.65));
  await expect.poll(() => isSeen(isRed)).toBe(true);
  await expect.poll(() => isSeen(isDark)).toBe(true);
  await expect.poll(() => page.locator("#row-1 .missing").innerText()).toBe("NULL");
});

test("every camera of the selected row is shown with its name, and any is opened", async () => {
  const page = await open("cameras?row=0");
  const panel = page.getByTestId("row-panel");
  await expect.poll(() => panel.locator("img").count()).toBe(2);

  await panel.getByRole("button", { name: "right of row 0" }).click();

  const detail = page.getByTestId("detail-view");
  await expect.poll(() => detail.getAttribute("aria-label")).toBe("right of row 0");
  await expect.poll(() => new URL(page.url()).searchParams.get("image")).toBe("right");
  await detail.getByRole("button", { name: "left" }).click();
  await expect.poll(() => detail.getAttribute("aria-label")).toBe("left of row 0");
  await page.keyboard.press("Escape");
  await expect.poll(() => detail.count()).toBe(0);
});

test("enlarging keeps the row under the pointer where it is", async () => {
  const page = await open("pets?top=20");
  const middleOf = async (row: number) => {
    const box = await page.locator(`#row-${row}`).boundingBox();
    return box === null ? NaN : box.y + box.height / 2;
  };
  await expect.poll(() => middleOf(24)).toBeGreaterThan(0);
  await page.locator("#row-24").hover(); // its middle
  const before = await middleOf(24);

  await page.keyboard.press("+");
  await expect.poll(async () => (await page.locator("#row-24").boundingBox())?.width ?? 0).toBeGreaterThan(200);

  await expect.poll(async () => Math.abs((await middleOf(24)) - before)).toBeLessThan(3);
});
