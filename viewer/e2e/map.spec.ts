/** Embeddings as a map: points, their classes, hover, lasso, and what is excluded. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { addressOf, count, open, query } from "./browser";

const ROWS = { vector: 299, plane: 300 };

async function mapped(path: string, viewport = { width: 1280, height: 800 }): Promise<Page> {
  const page = await open(path, { viewport });
  await expect.poll(() => page.getByTestId("map").getAttribute("data-points")).not.toBe("0");
  return page;
}

/** The middle of a cluster of `plane`, in pixels of the page: dogs at the right, owls above, cats where both meet. */
async function middleOf(page: Page, cluster: "cat" | "dog" | "owl"): Promise<{ x: number; y: number }> {
  const box = await page.getByTestId("map").boundingBox();
  if (box === null) throw new Error("no map");
  const scale = Math.min(box.width, box.height) / 1000;
  const unit = (960 * scale) / 36; // the plane is 36 wide, with what is spread around the corners
  const center = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  const from = { cat: { x: -15, y: 10 }, dog: { x: 15, y: 10 }, owl: { x: -15, y: -10 } }[cluster];
  return { x: center.x + from.x * unit, y: center.y + from.y * unit };
}

async function drawAround(page: Page, { x, y }: { x: number; y: number }, radius = 90): Promise<void> {
  await page.mouse.move(x - radius, y - radius);
  await page.mouse.down();
  for (const [right, down] of [[1, -1], [1, 1], [-1, 1], [-1, -0.9]] as const) await page.mouse.move(x + right * radius, y + down * radius, { steps: 4 });
  await page.mouse.up();
}

test("the map opens by its key, with a point for each row that has a vector", async () => {
  const page = await open("clusters");
  await page.getByRole("option", { name: /^row 8\b/ }).waitFor();

  await page.keyboard.press("m");
  await expect.poll(() => page.getByTestId("map-words").innerText()).toBe("299 points · 1 without a vector");
  await expect.poll(() => new URL(page.url()).searchParams.get("mode")).toBe("map");
  expect(await findings(page)).toEqual([]);
  await page.getByLabel("Vectors").selectOption("plane");
  await expect.poll(() => page.getByTestId("map-words").innerText()).toBe(`${ROWS.plane} points`);
  await page.reload();
  await expect.poll(() => page.getByTestId("map-words").innerText()).toBe(`${ROWS.plane} points`);
  await page.getByTestId("map").focus();
  await page.keyboard.press("m");
  await page.getByTestId("grid").waitFor();
});

test("a lasso selects a cluster, another one with shift adds to it, and the query shows them", async () => {
  const page = await mapped("clusters?mode=map&vector=plane");
  const bar = page.getByTestId("selection");

  await drawAround(page, await middleOf(page, "dog"));
  await expect.poll(() => bar.innerText()).toContain("100 rows selected");
  expect(Number(await page.getByTestId("map").getAttribute("data-found-ms"))).toBeGreaterThan(0);
  const sheet = await page.getByTestId("contact-sheet").getByRole("button").allInnerTexts(); // the first of them, side by side
  expect(sheet.map((row) => Number(row) % 3)).toEqual(Array(24).fill(1));
  await page.keyboard.down("Shift");
  await drawAround(page, await middleOf(page, "owl"));
  await page.keyboard.up("Shift");
  await expect.poll(() => bar.innerText()).toContain("200 rows selected");
  await bar.getByRole("button", { name: "Show only these" }).click();
  await expect.poll(() => count(page)).toBe("200 of 300 rows");
  await page.getByTestId("map").focus();
  await page.keyboard.press("Escape");
  await expect.poll(() => bar.count()).toBe(0);

  await drawAround(page, await middleOf(page, "cat")); // none of them is among the rows of the query
  await query(page, "WHERE label = 'cat' AND score < 150");
  await expect.poll(() => count(page)).toBe("50 of 300 rows");
  await drawAround(page, await middleOf(page, "cat"));
  await expect.poll(() => bar.innerText()).toContain("50 rows selected");
});

test("a point under the pointer shows its sample, and a click its row", async () => {
  const page = await mapped("clusters?mode=map&vector=plane");
  const { x, y } = await middleOf(page, "dog");

  await page.mouse.move(x, y);
  await expect.poll(() => page.getByTestId("point").innerText()).toMatch(/^row \d+ · dog$/);
  await page.mouse.down();
  await page.mouse.up();
  await expect.poll(() => page.getByTestId("row-panel").innerText()).toContain("dog");
  expect(Number(new URL(page.url()).searchParams.get("row")) % 3).toBe(1);
});

/** The most frequent colour of full points around the middle of a cluster; "" where there is none. */
async function colorAt(page: Page, cluster: "dog" | "owl"): Promise<string> {
  const { x, y } = await middleOf(page, cluster);
  const box = await page.getByTestId("map").boundingBox();
  return page.locator("[data-testid=map] canvas").evaluate(
    (element, [left, top]) => {
      const canvas = element as HTMLCanvasElement;
      const copy = document.createElement("canvas");
      [copy.width, copy.height] = [canvas.width, canvas.height];
      const context = copy.getContext("2d");
      context?.drawImage(canvas, 0, 0);
      const data = context?.getImageData((left ?? 0) - 40, (top ?? 0) - 40, 80, 80).data ?? [];
      const seen = new Map<string, number>();
      for (let i = 0; i < data.length; i += 4) {
        const color = [data[i], data[i + 1], data[i + 2]].join();
        if (data[i + 3] === 255) seen.set(color, (seen.get(color) ?? 0) + 1);
      }
      return [...seen].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
    },
    [x - (box?.x ?? 0), y - (box?.y ?? 0)],
  );
}

async function expectColors(page: Page): Promise<void> {
  await expect.poll(() => colorAt(page, "dog")).toBe("255,176,46");
  await expect.poll(() => colorAt(page, "owl")).toBe("40,232,192");
  await query(page, "WHERE label = 'dog'");
  await expect.poll(() => count(page)).toBe("100 of 300 rows");
  await expect.poll(() => colorAt(page, "owl")).toBe("");
  await expect.poll(() => colorAt(page, "dog")).toBe("255,176,46");
}

test("points have the colours of their classes, and are faint where the query excludes them", async () => {
  const page = await mapped("clusters?mode=map&vector=plane");
  expect(await page.getByTestId("map").getAttribute("data-renderer")).toBe("plain");

  await expectColors(page);
});

test("with WebGL the map has the same colours", async () => {
  const page = await open("clusters");
  await expect.poll(() => count(page)).toBe("300 rows"); // its token is exchanged
  await page.addInitScript(`{
    const getParameter = WebGL2RenderingContext.prototype.getParameter;
    WebGL2RenderingContext.prototype.getParameter = function (name) { return name === 0x9246 || name === this.RENDERER ? "a processor" : getParameter.call(this, name); };
  }`); // the WebGL of a test's browser is software, which the map does not use
  await page.goto(addressOf("clusters?mode=map&vector=plane"));
  await expect.poll(() => page.getByTestId("map").getAttribute("data-renderer")).toBe("webgl");

  await expectColors(page);
});

test("the map is zoomed, and its part in view selected, by keys and buttons alone", async () => {
  const page = await mapped("clusters?mode=map&vector=plane", { width: 390, height: 844 });
  await page.getByTestId("map").focus();

  await page.getByRole("button", { name: "Select rows in view" }).click();
  await expect.poll(() => page.getByTestId("selection").innerText()).toContain("300 rows selected");
  await page.getByTestId("map").focus();
  for (let step = 0; step < 5; step += 1) await page.keyboard.press("+");
  for (let step = 0; step < 30; step += 1) await page.keyboard.press("Shift+ArrowRight");
  for (let step = 0; step < 30; step += 1) await page.keyboard.press("Shift+ArrowDown");
  await page.getByRole("button", { name: "Select rows in view" }).click();
  await expect.poll(async () => Number(/\d+/.exec(await page.getByTestId("selection").innerText())?.[0])).toBeLessThan(150);
  expect(await findings(page)).toEqual([]);
});

test("a dataset without vectors says how to get them, and a map that fails can be tried again", async () => {
  const page = await open("pets?mode=map", { expected: ["status of 500"] });
  await expect.poll(() => page.getByTestId("embed").innerText()).toContain("tl.Embedding");
  expect(await findings(page)).toEqual([]);

  await page.route("**/projection/**", (route) => route.fulfill({ status: 500, contentType: "application/problem+json", body: '{"title": "Internal", "status": 500, "code": "internal", "detail": "it broke"}' }));
  await page.goto(addressOf("clusters?mode=map"));
  await page.getByRole("alert").getByText("it broke").waitFor();
  await page.unroute("**/projection/**");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect.poll(() => page.getByTestId("map").getAttribute("data-points")).toBe(String(ROWS.vector));
});
