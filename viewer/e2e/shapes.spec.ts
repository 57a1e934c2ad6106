/** Boxes, polygons and keypoints are drawn, moved, labelled and deleted, by mouse and by keyboard. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { open } from "./browser";

interface Size {
  width: number;
  height: number;
}

const SMALL: Size = { width: 160, height: 120 };
const editor = (page: Page) => page.getByTestId("shape-editor");
const said = (page: Page) => page.getByTestId("selected-shape").innerText();
const tool = (page: Page, name: string) => page.getByRole("toolbar", { name: "Shapes" }).getByRole("button", { name });
const review = (page: Page) => page.getByTestId("edits").getByRole("button", { name: /^Review/ });

/** Opens a row's shapes, once both are there: the editor and what was kept. */
async function editing(row: number): Promise<Page> {
  const page = await open(`drawn?mode=edit&row=${row}`);
  await editor(page).waitFor();
  await review(page).waitFor();
  return page;
}

/** Where a pixel of the image is on the screen. */
async function placeOf(page: Page, [x, y]: [number, number], image: Size): Promise<[number, number]> {
  const area = (await editor(page).boundingBox()) ?? { x: 0, y: 0, ...SMALL };
  const scale = Math.min(area.width / image.width, area.height / image.height);
  return [area.x + (area.width - image.width * scale) / 2 + x * scale, area.y + (area.height - image.height * scale) / 2 + y * scale];
}

async function drag(page: Page, from: [number, number], to: [number, number], image = SMALL): Promise<void> {
  await page.mouse.move(...(await placeOf(page, from, image)));
  await page.mouse.down();
  await page.mouse.move(...(await placeOf(page, [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2], image)));
  await page.mouse.move(...(await placeOf(page, to, image)));
  await page.mouse.up();
}

async function click(page: Page, at: [number, number], image = SMALL): Promise<void> {
  await page.mouse.click(...(await placeOf(page, at, image)));
}

async function press(page: Page, ...keys: string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key);
}

async function show(page: Page, row: number): Promise<void> {
  for (;;) {
    const now = Number(new URL(page.url()).searchParams.get("row"));
    if (now === row) break;
    await page.getByRole("button", { name: now < row ? "Next row" : "Previous row" }).click();
  }
  await page.locator(`[data-testid=shape-editor][data-row="${row}"]`).waitFor();
}

test("shapes are edited by mouse and keyboard, and committed", async () => {
  const page = await editing(0);
  await drag(page, [50, 55], [60, 60]); // moves the cat
  await expect.poll(() => said(page)).toMatch(/^cat · boxes 0 · 60.1 × 50 at (30|29\.[5-9]|30\.[0-5]), /);
  await press(page, "Escape");
  await drag(page, [100, 60], [130, 90]); // draws another
  await expect.poll(() => said(page)).toMatch(/^cat · boxes 1 · /);
  await press(page, "c");
  await page.keyboard.type("ow");
  await page.getByRole("option", { name: "owl" }).waitFor();
  await press(page, "Enter");
  await expect.poll(() => said(page)).toMatch(/^owl · boxes 1 · /);
  expect(await findings(page)).toEqual([]);

  await press(page, "Delete"); // and it takes its label along, and comes back with it
  await expect.poll(() => said(page)).toBe("");
  await press(page, "Control+z");
  await press(page, "n", "n");
  await expect.poll(() => said(page)).toMatch(/^owl · boxes 1 · /);

  await show(page, 1); // a portrait, by keyboard
  await press(page, "n");
  await expect.poll(() => said(page)).toBe("centres 0 · 20.3 × 40 at 34.9, 100");
  await press(page, "ArrowRight", "ArrowRight", "ArrowRight", "Shift+ArrowDown", "Alt+ArrowRight", "Alt+ArrowRight");
  await expect.poll(() => said(page)).toBe("centres 0 · 22.3 × 40 at 37.9, 110");

  await show(page, 2); // a single pixel
  await tool(page, "corners").click();
  await press(page, "a");
  await expect.poll(() => said(page)).toMatch(/^corners 0 · 0.3 × 0.3/);

  await show(page, 3); // a panorama
  await click(page, [530, 35], { width: 640, height: 64 });
  await expect.poll(() => said(page)).toBe("corners 1 · 60 × 30 at 500, 20");
  await press(page, "Delete");

  await show(page, 4);
  await press(page, "n", "v", "v", "v", "ArrowRight"); // the third corner
  await expect.poll(() => said(page)).toContain("41 × 40");
  await press(page, "Escape", "Escape");
  await tool(page, "outlines").click();
  for (const at of [[100, 40], [140, 40], [120, 80], [100, 40]] as [number, number][]) await click(page, at);
  await expect.poll(() => said(page)).toMatch(/^outlines 1 · /);

  await show(page, 5);
  await press(page, "n", "v", "ArrowDown", "h");
  await expect.poll(() => said(page)).toContain("a: hidden");

  await expect.poll(() => review(page).innerText()).toBe("Review 8 changes");
  await page.reload();
  await expect.poll(() => review(page).innerText()).toBe("Review 8 changes");
  await review(page).click();
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
  await expect.poll(async () => (await dialog.locator("tbody tr").first().locator("td").allInnerTexts()).slice(0, 2)).toEqual(["0", "boxes"]);
  await dialog.getByLabel("Message").fill("by hand");
  await dialog.getByLabel("Branch").fill("by-hand");
  await dialog.getByRole("button", { name: "Commit to by-hand" }).click();
  await expect.poll(() => page.getByRole("button", { name: /^Version by-hand@/ }).count()).toBe(1);
  await expect.poll(() => review(page).count()).toBe(1);
});

test("at 390 pixels each bar is a line, and the image has most of the page", async () => {
  const page = await open("drawn?mode=edit&row=0", { viewport: { width: 390, height: 800 } });
  await editor(page).waitFor();
  await review(page).waitFor();
  const height = async (name: string) => (await page.getByRole("toolbar", { name }).boundingBox())?.height ?? 999;
  expect(await height("Shapes")).toBeLessThan(76);
  expect((await page.getByTestId("edits").boundingBox())?.height).toBeLessThan(48);
  expect((await editor(page).boundingBox())?.height).toBeGreaterThan(300);
  expect(await findings(page)).toEqual([]);
});

test("a box is resized by its corner, keeps inside the image, and undo gives it back", async () => {
  const page = await editing(3);
  const size = { width: 640, height: 64 };
  await click(page, [30, 30], size);
  await expect.poll(() => said(page)).toBe("corners 0 · 49.9 × 40 at 10.1, 10");
  await drag(page, [60, 50], [60, 200], size);
  await expect.poll(() => said(page)).toMatch(/ × 54 at 10\.1, 10$/); // 64 high, it ends there
  await drag(page, [30, 30], [-300, 30], size);
  await expect.poll(() => said(page)).toMatch(/ at 0, 10$/);
  await press(page, "Control+z", "Control+z");
  await expect.poll(() => said(page)).toBe("corners 0 · 49.9 × 40 at 10.1, 10");
  await press(page, "Control+Shift+Z");
  await expect.poll(() => said(page)).toMatch(/ × 54 at 10\.1, 10$/);
});

test("a vertex is added and taken away, and a joint is placed by the mouse", async () => {
  const page = await editing(4);
  await click(page, [40, 40]);
  await expect.poll(() => said(page)).toMatch(/^outlines 0/);
  await page.mouse.dblclick(...(await placeOf(page, [40, 20], SMALL))); // on its upper side
  await drag(page, [40, 20], [40, 5]);
  await expect.poll(() => said(page)).toMatch(/^outlines 0 · 40 × 55/);
  await press(page, "Delete"); // of the vertex alone
  await expect.poll(() => said(page)).toBe("outlines 0 · 40 × 40 at 20, 20");

  await show(page, 5);
  await click(page, [60, 60]);
  await expect.poll(() => said(page)).toMatch(/^joints 0/); // its joints can be taken now
  await drag(page, [40, 60], [20, 30]);
  await expect.poll(() => said(page)).toMatch(/a: seen$/);
  await press(page, "Delete"); // of a joint: its object stays
  await page.getByText("A point is not deleted: h hides it, and Esc, then Del deletes its object.").waitFor();
  await press(page, "Escape", "Delete");
  await expect.poll(() => said(page)).toBe("");
  await press(page, "Control+z", "Control+z", "n");
  await expect.poll(() => said(page)).toBe("joints 0 · 40 × 0 at 40, 60");
  await press(page, "Escape", "e"); // no object, then no editor
  await expect.poll(() => editor(page).count()).toBe(0);
  expect(await page.getByTestId("detail-view").isVisible()).toBe(true);
});

test("the image lies below the tools, and stays there when an object is selected", async () => {
  const page = await editing(1); // a portrait: it is as high as its place
  const tools = (await page.getByRole("toolbar", { name: "Shapes" }).boundingBox()) ?? { y: 0, height: 0 };
  const before = await editor(page).boundingBox();
  expect(before?.y).toBeGreaterThanOrEqual(tools.y + tools.height);
  await tool(page, "corners").click();
  await drag(page, [4, 1], [40, 12], { width: 90, height: 240 }); // in its sky
  await expect.poll(() => said(page)).toMatch(/^corners 0 · 36(\.\d)? × 11(\.\d)? at 4(\.\d)?, 1(\.\d)?$/);
  expect(await editor(page).boundingBox()).toEqual(before);
});

test("a polygon of two corners is not closed, and Enter closes no editor", async () => {
  const page = await editing(4);
  await press(page, "Enter");
  await tool(page, "outlines").click();
  for (const at of [[100, 40], [140, 40]] as [number, number][]) await click(page, at);
  await press(page, "Enter");
  await page.getByText("A polygon needs three corners.").waitFor();
  await click(page, [120, 80]);
  await press(page, "Enter");
  await expect.poll(() => said(page)).toMatch(/^outlines 1 · /);
  await page.getByRole("button", { name: /^Close/ }).click();
  await press(page, "e"); // begins again
  await editor(page).waitFor();
});

test("boxes come and go beside as many outlines, and are committed after their labels were changed", async () => {
  const page = await open("beside?mode=edit&row=0");
  await editor(page).waitFor();
  await review(page).waitFor();
  await press(page, "n", "2");
  await expect.poll(() => said(page)).toMatch(/^dog · boxes 0/);
  await press(page, "Escape");
  await drag(page, [100, 60], [130, 90]);
  await expect.poll(() => said(page)).toMatch(/ · boxes 1 · /);
  await review(page).click();
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
  await dialog.getByLabel("Message").fill("two boxes");
  await dialog.getByRole("button", { name: /^Commit/ }).click();
  await expect.poll(() => page.getByRole("button", { name: /^Version main@2/ }).count()).toBe(1);
});

test("damaged boxes are reached, mended and deleted by keyboard", async () => {
  const page = await open("damaged?mode=edit&row=0");
  await editor(page).waitFor();
  await review(page).waitFor();
  await press(page, "n");
  await expect.poll(() => said(page)).toBe("cat · boxes 0 · 80 × 80 at 20, 10 · reversed");
  await tool(page, "mend").click();
  await expect.poll(() => said(page)).toBe("cat · boxes 0 · 80 × 80 at 20, 10");
  await press(page, "n");
  await expect.poll(() => said(page)).toBe("dog · boxes 1 · 10 × 10 at 0, 0 · not all numbers: NaN, 0, 10, 10");
  expect(await findings(page)).toEqual([]);
  await press(page, "Delete", "n", "n");
  await expect.poll(() => said(page)).toBe("owl · boxes 1 · 0 × 0 at 50, 50 · no area");
  await press(page, "Alt+ArrowRight", "Alt+ArrowDown");
  await expect.poll(() => said(page)).toBe("owl · boxes 1 · 1 × 1 at 50, 50");
  await review(page).click();
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
  await dialog.getByText("0: [100, 90, 20, 10], 1: [NaN, 0, 10, 10], 2: [50, 50, 50, 50]").waitFor();
  await dialog.getByText("0: [20, 10, 100, 90], 1: [50, 50, 51, 51]").waitFor();
  for (const side of ["before", "after"]) await expect.poll(() => dialog.getByRole("img", { name: `row 0 ${side}` }).getAttribute("data-drawn")).toBe("true");
  await dialog.getByLabel("Message").fill("mended");
  await dialog.getByRole("button", { name: /^Commit/ }).click();
  await expect.poll(() => page.getByRole("button", { name: /^Version main@2/ }).count()).toBe(1);
});

test("predictions are a model's: a hand cannot edit them", async () => {
  const page = await open("shapes?row=5&look=1");
  await page.getByTestId("detail-view").waitFor();
  await page.getByRole("button", { name: /^Edit/ }).click();
  await page.getByRole("toolbar", { name: "Shapes" }).waitFor();
  expect(await page.getByRole("toolbar", { name: "Shapes" }).getByRole("button").allInnerTexts()).not.toContain("predicted_boxes");
});
