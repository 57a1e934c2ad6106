/** Point clouds and meshes are drawn, turned and coloured; tests/viewer/recorded.py made them. */
import { expect, test } from "vitest";
import type { Page } from "playwright-core";
import { cellPixel, open } from "./browser";

const CANVAS = "[data-testid=scene] canvas";

/** How many pixels are of which colour: of red more than of others, of blue, and of neither. */
function colors(page: Page): Promise<{ red: number; blue: number; other: number }> {
  return page.locator(CANVAS).evaluate((element) => {
    const canvas = element as HTMLCanvasElement;
    const found = { red: 0, blue: 0, other: 0 };
    const data = canvas.width === 0 ? [] : (canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? []);
    for (let at = 0; at < data.length; at += 4) {
      if ((data[at + 3] ?? 0) === 0) continue;
      const [red, green, blue] = [data[at] ?? 0, data[at + 1] ?? 0, data[at + 2] ?? 0];
      found[red > 150 && green < 50 ? "red" : blue > 150 && green < 50 ? "blue" : "other"] += 1;
    }
    return found;
  });
}

test("points are drawn in their colours, turned by keys and hand, and coloured by a field", async () => {
  const page = await open("clouds?row=0&look=1");
  await expect.poll(async () => (await colors(page)).blue).toBeGreaterThan(500);
  const first = await colors(page);
  expect(first.red).toBeGreaterThan(100);
  expect(await page.getByTestId("count-of-points").innerText()).toContain("7,200 points");

  for (let i = 0; i < 4; i += 1) await page.keyboard.press("Shift+ArrowUp"); // from straight above only the upper plate is seen
  await expect.poll(async () => (await colors(page)).red).toBeLessThan(20);
  await page.keyboard.press("0");
  await expect.poll(() => colors(page)).toEqual(first);
  for (let i = 0; i < 8; i += 1) await page.keyboard.press("-"); // points come to lie upon each other
  await expect.poll(async () => (await colors(page)).blue).toBeLessThan(first.blue / 2);
  await page.keyboard.press("0");
  const box = await page.locator(CANVAS).boundingBox();
  const [x, y] = [(box?.x ?? 0) + 300, (box?.y ?? 0) + 200];
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x, y - 400, { steps: 4 }); // from below
  await page.mouse.up();
  await expect.poll(async () => (await colors(page)).red).toBeGreaterThan(first.red);

  await page.getByLabel("colour").selectOption("intensity");
  await expect.poll(async () => (await colors(page)).other).toBeGreaterThan(500);
  await expect.poll(async () => (await colors(page)).red).toBe(0);
  await expect.poll(() => page.locator(".range").innerText()).toMatch(/^0\s*4$/);
});

const EDGES = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]] as const;
type Corners = [number, number][];

/** Which share of the places that NumPy computed along the edges of each box is drawn in a colour; points are grey. */
function drawn(page: Page, boxes: Corners[]): Promise<number[]> {
  return page.locator(CANVAS).evaluate(
    (element, [corners, edges]) => {
      const canvas = element as HTMLCanvasElement;
      const context = canvas.getContext("2d");
      const half = Math.min(canvas.width, canvas.height) / 2;
      const isColored = (x: number, y: number) => {
        const data = context?.getImageData(Math.floor(x) - 1, Math.floor(y) - 1, 3, 3).data ?? [];
        for (let at = 0; at < data.length; at += 4) {
          const color = [data[at] ?? 0, data[at + 1] ?? 0, data[at + 2] ?? 0];
          if ((data[at + 3] ?? 0) > 128 && Math.max(...color) - Math.min(...color) > 40) return true;
        }
        return false;
      };
      return corners.map((box) => {
        const places = edges.flatMap(([from, to]) => [0, 0.25, 0.5, 0.75].map((share) => [0, 1].map((axis) => (1 - share) * (box[from]?.[axis] ?? 0) + share * (box[to]?.[axis] ?? 0))));
        return places.filter(([x = 0, y = 0]) => isColored(canvas.width / 2 + half * x, canvas.height / 2 - half * y)).length / places.length;
      });
    },
    [boxes, EDGES] as const,
  );
}

test("boxes in space are where NumPy projects them, near zero and far from it, and follow filters and hands", async () => {
  const page = await open("drives?row=0&look=1");
  await page.getByTestId("scene").waitFor(); // then the page has signed in
  const rows = (await (await page.request.get(new URL("/v1/datasets/drives/rows?columns=seen", page.url()).href)).json()) as { rows: { seen: Corners[] }[] };
  const boxes = page.getByTestId("count-of-boxes");
  const isWhole = async () => (await drawn(page, rows.rows[0]?.seen ?? [])).map((share) => share === 1);
  for (const row of [0, 1]) {
    expect(rows.rows[row]?.seen.length).toBe(4);
    await expect.poll(() => page.getByTestId("scene").getAttribute("aria-label")).toBe(`points of row ${row}`);
    await expect.poll(() => boxes.innerText()).toBe("4 boxes");
    await expect.poll(isWhole).toEqual([true, true, true, true]);
    await page.keyboard.press("j");
  }
  await expect.poll(() => boxes.innerText()).toBe("0 boxes · 1 not drawn");
  await page.keyboard.press("j");
  await expect.poll(() => boxes.innerText()).toBe("0 boxes · 5,000 not drawn");

  await page.goto(new URL(page.url().replace("row=3", "row=0")).href);
  await expect.poll(isWhole).toEqual([true, true, true, true]);
  await page.getByRole("switch", { name: /^turned / }).click();
  await expect.poll(() => boxes.innerText()).toBe("3 boxes");
  await expect.poll(async () => (await isWhole()).map(String).join()).toBe("true,true,false,true");
  await page.keyboard.press("Shift+ArrowUp");
  await expect.poll(async () => (await isWhole()).includes(true)).toBe(false);
  await page.keyboard.press("0");
  await expect.poll(async () => (await isWhole()).map(String).join()).toBe("true,true,false,true");
});

test("many points, one, none and NULL", async () => {
  const page = await open("clouds?row=1&look=1");
  const count = page.getByTestId("count-of-points");
  await expect.poll(() => count.innerText()).toContain("100,000 points");
  await expect.poll(async () => (await colors(page)).other).toBeGreaterThan(5_000);
  await page.keyboard.press("j");
  await expect.poll(() => count.innerText()).toContain("1 point");
  await expect.poll(async () => (await colors(page)).other).toBeGreaterThan(0);
  await page.keyboard.press("j");
  await expect.poll(() => count.innerText()).toContain("0 points");
  await page.keyboard.press("j");
  await page.getByText("The point cloud of this row is NULL.").waitFor();
});

test("clouds and meshes have pictures in the grid and in the row panel, where a click opens them", async () => {
  const page = await open("solids?row=0");
  const isLight = async () => Math.max(...((await cellPixel(page, 0, 90, 90)) ?? [0])) > 60;
  await expect.poll(isLight).toBe(true);
  await page.getByTestId("row-panel").getByRole("button", { name: "mesh of row 0" }).click();

  await expect.poll(() => page.getByTestId("count-of-points").innerText()).toContain("6 faces");
  expect(await page.getByTestId("count-of-boxes").innerText()).toBe("1 box");
  await expect.poll(async () => (await colors(page)).other).toBeGreaterThan(5_000);
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("player-view").count()).toBe(0);
});
