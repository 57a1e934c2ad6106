/** Every kind of overlay, where the data says; tests/viewer/lakes.py drew the truth with NumPy. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { addressOf, cellPixel, open } from "./browser";

const CANVAS = "[data-testid=row-panel] canvas";
const [WIDTH, FILL] = [160, Math.round(255 * 0.45)];

/** What is drawn over one pixel of the sample, with its opacity; null for nothing. */
async function over(page: Page, x: number, y: number): Promise<number[] | null> {
  return page.locator(CANVAS).evaluate(
    (element, [left, top, width]) => {
      const canvas = element as HTMLCanvasElement;
      const scale = canvas.width / (width ?? 1);
      const at = [Math.floor(((left ?? 0) + 0.5) * scale), Math.floor(((top ?? 0) + 0.5) * scale)] as const;
      const data = canvas.getContext("2d")?.getImageData(at[0], at[1], 1, 1).data;
      return data === undefined || data[3] === 0 ? null : [...data];
    },
    [x, y, WIDTH],
  );
}

const strength = async (page: Page, x: number, y: number) => (await over(page, x, y))?.[3] ?? 0;
const hue = async (page: Page, x: number, y: number) => (await over(page, x, y))?.slice(0, 3) ?? null;

test("a binary mask covers its pixels and no other", async () => {
  const page = await open("shapes?row=0");

  await expect.poll(() => strength(page, 80, 60)).toBe(FILL);
  for (const [x, y] of [[41, 41], [118, 78]] as const) await expect.poll(() => strength(page, x, y), { message: `${x}, ${y}` }).toBe(FILL);
  for (const [x, y] of [[38, 60], [121, 60], [80, 38], [80, 81]] as const) await expect.poll(() => over(page, x, y)).toBeNull();
});

test("a segmentation has a colour for each class and none for background", async () => {
  const page = await open("shapes?row=1");

  await expect.poll(() => strength(page, 80, 90)).toBe(FILL);
  await expect.poll(() => strength(page, 80, 10)).toBe(FILL);
  await expect.poll(async () => String(await hue(page, 80, 90)) === String(await hue(page, 80, 10))).toBe(false); // road and sky
  await expect.poll(() => over(page, 80, 45)).toBeNull();
});

test("of two objects the smaller one is seen where they overlap", async () => {
  const page = await open("shapes?row=2");

  // Each object is decoded by itself, so one may be seen before the other.
  await expect.poll(() => hue(page, 60, 90)).not.toBeNull();
  await expect.poll(() => hue(page, 130, 50)).not.toBeNull(); // outside the large one
  const small = await hue(page, 130, 50);
  await expect.poll(() => hue(page, 60, 50)).toEqual(small);
  await expect.poll(() => hue(page, 60, 90)).not.toEqual(small);
  await expect.poll(() => over(page, 120, 90)).toBeNull();
});

test("an outline is drawn along its points and filled faintly", async () => {
  const page = await open("shapes?row=3");

  await expect.poll(() => strength(page, 80, 20)).toBeGreaterThan(200);
  await expect.poll(() => strength(page, 20, 60)).toBeGreaterThan(200);
  await expect.poll(() => strength(page, 80, 60)).toBeGreaterThan(0);
  await expect.poll(() => strength(page, 80, 60)).toBeLessThan(FILL);
  await expect.poll(() => over(page, 150, 110)).toBeNull();
});

test("a skeleton joins the joints that are known", async () => {
  const page = await open("shapes?row=4");

  await expect.poll(() => strength(page, 60, 60)).toBeGreaterThan(150); // between a and b
  await expect.poll(() => over(page, 100, 60)).toBeNull(); // c was not labelled
});

test("a fill is as strong as the slider says, and the address keeps it", async () => {
  const page = await open("shapes?row=0");
  await expect.poll(() => strength(page, 80, 60)).toBe(FILL);

  await page.getByLabel("Overlay opacity").fill("80");

  await expect.poll(() => strength(page, 80, 60)).toBe(Math.round(255 * 0.8));
  await expect.poll(() => new URL(page.url()).searchParams.get("opacity")).toBe("0.8");
});

test("a hidden class has no pixels, in the link too", async () => {
  const page = await open("shapes?row=1");
  await expect.poll(() => strength(page, 80, 90)).toBe(FILL);

  await page.getByRole("switch", { name: "Overlays of road" }).click();

  await expect.poll(() => over(page, 80, 90)).toBeNull();
  await expect.poll(() => strength(page, 80, 10)).toBe(FILL);
  await page.reload();
  await expect.poll(() => strength(page, 80, 10)).toBe(FILL);
  await expect.poll(() => over(page, 80, 90)).toBeNull();
});

test("masks lie over the thumbnails of the grid too", async () => {
  const page = await open("shapes?hide=ground,objects,outlines,joints,boxes,predicted_boxes");
  const grey = (color: number[] | null) => color !== null && Math.max(...color) - Math.min(...color) < 12;
  const middle = () => cellPixel(page, 0, 84, 60);

  await expect.poll(middle).not.toBeNull();
  await expect.poll(async () => grey(await middle())).toBe(false);
  await expect.poll(async () => grey(await cellPixel(page, 0, 8, 8))).toBe(true);
});

/** In the plainest way: the pixels on the edge of any box; how many of the canvas differ. */
const CROWD_ERRORS = `(canvas) => {
  const scale = canvas.width / 160;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const truth = new Uint8Array(canvas.width * canvas.height);
  for (let top = 0; top < 120; top += 4) for (let left = 0; left < 160; left += 4) {
    const side = (at) => Math.round(scale * (1 + ((left + at) / 4) % 3));
    const [x, y, width, height] = [Math.round(scale * left), Math.round(scale * top), side(top), side(116 - top)];
    for (let line = y; line <= y + height; line += 1) for (let column = x; column <= x + width; column += 1) {
      const isEdge = line === y || line === y + height || column === x || column === x + width;
      if (isEdge && line < canvas.height && column < canvas.width) truth[line * canvas.width + column] = 255;
    }
  }
  return truth.reduce((errors, alpha, i) => errors + (alpha === data[4 * i + 3] ? 0 : 1), 0);
}`;

test("more than a thousand boxes are lines on their edges, pixel by pixel", async () => {
  const page = await open("crowd?row=0");

  await page.locator(CANVAS).waitFor();
  await expect.poll(() => page.evaluate(`(${CROWD_ERRORS})(document.querySelector(${JSON.stringify(CANVAS)}))`)).toBe(0);
});

/** How opaque a run of pixels of the canvas is, each value once. */
async function strengths(page: Page, x: number, y: number): Promise<number[]> {
  const found = await page.locator(CANVAS).evaluate(
    (element, [left, top, width]) => {
      const canvas = element as HTMLCanvasElement;
      const scale = canvas.width / (width ?? 1);
      return [...(canvas.getContext("2d")?.getImageData(Math.round((left ?? 0) * scale), Math.round((top ?? 0) * scale), 16, 1).data ?? [])];
    },
    [x, y, WIDTH],
  );
  return [...new Set(found.filter((_, i) => i % 4 === 3))].sort((a, b) => a - b);
}

test("after twenty classes a colour comes again, hatched and then checked, in boxes, masks and the list of classes", async () => {
  const page = await open("looks?row=3");
  const [box, mask] = [[40, 60], [120, 60]] as const;
  await expect.poll(() => strengths(page, ...mask)).toEqual([FILL]);
  await expect.poll(async () => (await strengths(page, ...box)).length).toBe(1);
  const color = await hue(page, ...mask);

  for (const row of [23, 43]) {
    await page.goto(addressOf(`looks?row=${row}`));
    await expect.poll(async () => (await strengths(page, ...mask)).length, { message: `mask of class ${row}` }).toBe(2);
    await expect.poll(async () => (await strengths(page, ...box)).length, { message: `box of class ${row}` }).toBeGreaterThan(1);
    const same = (await hue(page, ...mask))?.every((part, i) => Math.abs(part - (color?.[i] ?? 0)) < 16); // a canvas rounds faint colours
    expect(same).toBe(true);
  }
  await page.getByLabel("Filter classes").first().fill("3");
  const swatch = (name: string) => page.getByRole("switch", { name: `Overlays of ${name}` }).first().locator("i").evaluate((one) => getComputedStyle(one).backgroundImage);
  await expect.poll(() => swatch("class 03")).toBe("none");
  await expect.poll(() => swatch("class 23")).toContain("linear-gradient");
  await expect.poll(() => swatch("class 43")).toContain("conic-gradient");
});
