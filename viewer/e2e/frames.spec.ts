/** Sequences of images play, and what lies over images lies over the right one; tests/viewer/lakes.py made them. */
import { expect, test } from "vitest";
import { cellPixel, open, pixel } from "./browser";

const nearest = (color: number[] | null) => (color === null ? "" : (["red", "green", "blue"][color.indexOf(Math.max(...color))] ?? ""));

test("a sequence of images shows its first frame in the grid, and plays in the row panel", async () => {
  const page = await open("clips?row=0");
  await expect.poll(async () => nearest(await cellPixel(page, 0, 80, 60))).toBe("red");
  const frames = page.getByTestId("row-panel").getByTestId("frames");
  await expect.poll(() => frames.innerText()).toContain("0 / 3");

  await page.keyboard.press("."); // the next frame
  await expect.poll(() => frames.innerText()).toContain("1 / 3");
  await expect.poll(() => new URL(page.url()).searchParams.get("frame")).toBe("1");
  await frames.getByRole("button", { name: "Play" }).click();
  await expect.poll(() => frames.innerText()).toContain("3 / 3");
  await frames.getByRole("button", { name: "Pause" }).click();

  await page.getByTestId("row-panel").getByText("one, two").waitFor();
});

test("a frame opens in the detail view, keeps its zoom, and is in the URL", async () => {
  const page = await open("clips?row=0&frame=2&look=1");
  const canvas = "[data-testid=detail-view] canvas";
  const middle = async () => {
    const { width, height } = (await page.locator(canvas).boundingBox()) ?? { width: 0, height: 0 };
    return nearest(await pixel(page, canvas, width / 2, height / 2));
  };
  await expect.poll(middle).toBe("blue");
  await page.keyboard.press("+");
  const scale = page.getByTestId("scale");
  const enlarged = await scale.innerText();

  await page.keyboard.press(",");

  await expect.poll(middle).toBe("green");
  expect(await scale.innerText()).toBe(enlarged);
});

test("sequences without frames say so, and a single frame does not play", async () => {
  const page = await open("clips?row=2"); // a request that fails would be an error in the console

  await page.getByTestId("row-panel").getByText("This sequence has no frames.").waitFor();
  await page.keyboard.press("Enter");
  await page.getByTestId("detail-view").getByText("This sequence has no frames.").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("k"); // to the clip of one frame
  await page.getByTestId("row-panel").getByRole("img").waitFor();
  expect(await page.getByTestId("row-panel").getByRole("button", { name: "Play" }).count()).toBe(0);
  await expect.poll(() => page.locator("#row-2 .missing").innerText()).toContain("without frames");
  await expect.poll(() => page.locator("#row-3 .missing").innerText()).toBe("NULL");
});

test("boxes that do not say of which image lie over the one that they are named after, else over the first", async () => {
  const page = await open("rig?row=0&at=main@1&look=1&image=left");
  const canvas = "[data-testid=detail-view] canvas";
  /** The strongest colour of a column of pixels through one edge of a box, as a share of the image. */
  const isDrawn = async (x: number, y: number) => {
    const place = await page.locator(canvas).boundingBox();
    const { width, height } = place ?? { width: 0, height: 0 };
    const scale = Math.min(width / 160, height / 120);
    const color = await pixel(page, canvas, (width - 160 * scale) / 2 + x * scale, (height - 120 * scale) / 2 + y * scale);
    return color !== null && Math.max(...color) - Math.min(...color) > 60;
  };
  await expect.poll(() => isDrawn(40, 20)).toBe(true);
  expect(await isDrawn(120, 100)).toBe(false);

  await page.getByRole("button", { name: "right", exact: true }).click();

  await expect.poll(() => isDrawn(120, 100)).toBe(true);
  expect(await isDrawn(40, 20)).toBe(false);
});

test("differences show every image of a row in both versions", async () => {
  const page = await open("rig?compare=main@1&diff=side");

  await expect.poll(() => page.getByTestId("diff-image").count()).toBe(2);
  await expect.poll(() => page.getByTestId("diff-image").nth(1).innerText()).toContain("main@1 · right");
  await expect.poll(() => page.getByTestId("diff-table").innerText()).toMatch(/right_boxes\s*1 moved/);
});
