/** Training runs: their curves, the batch of a step, and the steps that saw a row. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { count, open } from "./browser";

const told = (page: Page) => page.getByTestId("told-point").first().innerText();
const facts = async (page: Page) => (await page.getByTestId("step-facts").innerText()).replaceAll(/\s+/g, " ").trim();
const cells = async (page: Page) => (await page.getByTestId("grid").getByRole("option").allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " ").replace(" ,", ",").trim()).sort();
const param = (page: Page, name: string) => new URL(page.url()).searchParams.get(name);

test("runs are listed with how they ended, and a key opens the step of a spike as its batch", async () => {
  const page = await open("trained");
  await page.getByRole("option", { name: /^row 8\b/ }).waitFor();
  await page.keyboard.press("r");
  const room = page.getByTestId("runs");
  await room.getByRole("row", { name: /first/ }).waitFor();
  const row = async (name: string) => (await room.getByRole("row", { name: new RegExp(name) }).innerText()).replaceAll(/\s+/g, " ");
  expect(await row("first")).toMatch(/first .* 12 loss 0\.215 main@1 complete, /);
  expect(await row("stopped")).toContain("stopped within an epoch");
  expect(await row("damaged")).toContain("cannot be read: 'runs/damaged/run.json' is damaged");
  expect(await row("long")).toContain("100,000");
  expect(await findings(page)).toEqual([]);

  const box = room.getByRole("row", { name: /stopped/ }).getByRole("checkbox");
  await box.click(); // the newest is shown without a choice
  await expect.poll(() => new URL(page.url()).searchParams.getAll("run")).toEqual(["first", "stopped"]);
  await box.click();
  await expect.poll(() => new URL(page.url()).searchParams.getAll("run")).toEqual(["first"]);
  await page.getByTestId("run").getByText("<b>bold</b>").waitFor();
  const chart = page.getByRole("slider", { name: "loss over steps" });
  await chart.focus();
  await page.keyboard.press("Home");
  await expect.poll(() => told(page)).toBe("step 0 · loss 0.015");
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => told(page)).toBe("step 1 · loss 2.288");
  await page.keyboard.press("Enter");

  await expect.poll(() => facts(page)).toBe("epoch 0 · 4 rows · loss 2.288 · acc 0.5 · read main@1 · 1 not in main@2");
  await expect.poll(() => cells(page)).toEqual(["row 4, loss 0.04 · cat", "row 5, loss 0.06 · cat", "row 6, loss 9 · dog"]);
  expect([param(page, "mode"), param(page, "run"), param(page, "step")]).toEqual(["step", "first", "1"]);
  expect(await count(page)).toBe("3 of 23 rows");
  expect(await findings(page)).toEqual([]);
  await page.goBack();
  await room.waitFor();
});

test("arrow keys go from step to step, and the selected row lists the steps that saw it", async () => {
  const page = await open("trained?mode=step&run=first&step=4");
  await expect.poll(() => facts(page)).toBe("epoch 0 · 4 rows · loss 0.175 · acc 0.5 · read main@1");
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => facts(page)).toContain("loss 0.215");
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => facts(page)).toContain("epoch 1");
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => param(page, "step")).toBe("5");
  await expect.poll(() => cells(page)).toEqual(["row 19, loss 0.2 · cat", "row 20, loss 0.21 · dog", "row 21, loss 0.22 · cat", "row 22, loss 0.23 · dog"]);

  await page.keyboard.press("j");
  const seen = page.getByTestId("seen");
  await seen.getByText("2 steps:").waitFor();
  await expect.poll(() => seen.getByRole("button").allInnerTexts()).toEqual(["5", "11"]);
  await expect.poll(() => page.getByTestId("row-panel").locator("tr", { hasText: "loss" }).innerText()).toContain("0.2");
  await seen.getByRole("button", { name: "11" }).click();
  await expect.poll(() => param(page, "step")).toBe("11");
  await page.reload();
  await expect.poll(() => facts(page)).toContain("epoch 1");
  await page.getByLabel("step", { exact: true }).fill("99");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.getByLabel("step", { exact: true }).inputValue()).toBe("11"); // the last one
  await page.getByRole("button", { name: "Show all rows" }).click();
  await expect.poll(() => count(page)).toBe("23 rows");
  expect(param(page, "step")).toBeNull();
});

test("the rows with the largest loss are a query", async () => {
  const page = await open("trained?mode=runs&run=first");
  await page.getByRole("button", { name: "Rows by loss, largest first" }).click();
  await expect.poll(() => count(page)).toBe("23 of 23 rows");
  await page.keyboard.press("j");
  await expect.poll(() => page.getByTestId("row-panel").locator("tr", { hasText: "logged" }).innerText()).toContain("9");
  expect(param(page, "q")).toContain("RUN('first', 'loss')");
});

test("a spike among a hundred thousand steps is in its point, and a step without rows says why", async () => {
  const page = await open("trained?mode=runs&run=long", { expected: ["status of 400"] });
  const chart = page.getByRole("slider", { name: "loss over steps" });
  const box = await chart.boundingBox();
  if (box === null) throw new Error("no chart");
  await page.mouse.move(box.x + (41_200.5 / 100_000) * box.width, box.y + 20);
  await expect.poll(() => told(page)).toContain("highest at 41,200)");
  await page.mouse.click(box.x + (41_200.5 / 100_000) * box.width, box.y + 20);
  await expect.poll(() => param(page, "step")).toBe("41200");
  await expect.poll(() => page.getByTestId("query-problem").innerText()).toContain("it recorded no batch");
  await page.getByText("The batch of this step cannot be shown.").waitFor();
  await page.getByTestId("step").getByRole("button", { name: "Runs" }).click();
  await page.getByTestId("runs").waitFor();
});

test("dragging over steps shows them alone, and + and - at a step", async () => {
  const page = await open("trained?mode=runs&run=long");
  const chart = page.getByRole("slider", { name: "loss over steps" });
  const box = await chart.boundingBox();
  if (box === null) throw new Error("no chart");
  const at = (step: number) => box.x + (step / 100_000) * box.width;
  await page.mouse.move(at(40_000), box.y + 30);
  await page.mouse.down();
  await page.mouse.move(at(41_000), box.y + 30);
  await page.mouse.move(at(43_000), box.y + 30);
  await page.mouse.up();
  await expect.poll(() => param(page, "steps")).not.toBeNull();
  const [start, stop] = (param(page, "steps") ?? "").split("-").map(Number);
  expect([Math.abs((start ?? 0) - 40_000) < 200, Math.abs((stop ?? 0) - 43_000) < 200]).toEqual([true, true]);
  expect(param(page, "step")).toBeNull();
  await page.getByTestId("span").waitFor();
  await page.goto(new URL("trained?mode=runs&run=long&steps=41100-41300", page.url()).href);
  await chart.focus();
  await page.keyboard.press("+"); // half of the steps, about the middle
  await expect.poll(() => param(page, "steps")).toBe("41150-41250");
  await page.keyboard.press("Home");
  await expect.poll(() => told(page)).toMatch(/^step 41,150 · loss 0\.02/);
  for (let i = 0; i < 50; i += 1) await page.keyboard.press("ArrowRight");
  await expect.poll(() => told(page)).toMatch(/^step 41,200 · loss 5\.02/); // a point for each step
  await page.keyboard.press("-");
  await expect.poll(() => param(page, "steps")).toBe("41100-41300");
  expect(await findings(page)).toEqual([]);
  await page.keyboard.press("0");
  await expect.poll(() => param(page, "steps")).toBeNull();
  await expect.poll(() => page.getByTestId("span").count()).toBe(0);
});

test("a rank is chosen of those that shared a step, and stays from step to step", async () => {
  const page = await open("trained?mode=step&run=ranked&step=1");
  await expect.poll(() => facts(page)).toContain("epoch 0 · 8 rows");
  await page.getByLabel("rank").selectOption("1");
  await expect.poll(() => facts(page)).toContain("epoch 0 · 4 rows");
  await expect.poll(() => cells(page)).toHaveLength(4);
  const first = await cells(page);
  await page.keyboard.press("Tab"); // a chosen option keeps the arrow keys
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => [param(page, "step"), param(page, "rank")]).toEqual(["2", "1"]);
  await expect.poll(() => cells(page)).not.toEqual(first);
  await page.reload();
  await expect.poll(() => page.getByLabel("rank").inputValue()).toBe("1");
  await page.getByLabel("rank").selectOption("all");
  await expect.poll(() => param(page, "rank")).toBeNull();
  await expect.poll(() => facts(page)).toContain("epoch 0 · 8 rows");
});

test("a step of a mix shows the rows that values were logged of, and says so", async () => {
  const page = await open("trained?mode=step&run=mixed&step=1");
  await expect.poll(() => facts(page)).toMatch(/4 rows with values · loss/);
  await expect.poll(() => page.getByTestId("step-missing").innerText()).toContain("These are the rows that values were logged of: run 'mixed' read rows");
  await expect.poll(() => cells(page)).toHaveLength(4);
  await page.keyboard.press("j");
  await page.getByTestId("seen").getByText("that logged values of it").waitFor();
  expect(await findings(page)).toEqual([]);
});

test("the panel of a row has what was logged of it over the steps that saw it", async () => {
  const page = await open("trained?mode=step&run=first&step=1&row=2");
  const seen = page.getByTestId("seen");
  const chart = seen.getByRole("slider", { name: "loss over steps" });
  await chart.focus();
  await page.keyboard.press("Home");
  await expect.poll(() => seen.getByTestId("told-point").innerText()).toBe("step 1 · loss 9");
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => seen.getByTestId("told-point").innerText()).toBe("step 7 · loss 9");
  await page.keyboard.press("Enter");
  await expect.poll(() => param(page, "step")).toBe("7");
});

test("two runs share a chart, and a dataset without runs says how to record one", async () => {
  const page = await open("trained?mode=runs&run=first&run=stopped&metric=loss&metric=acc", { viewport: { width: 390, height: 844 } });
  await expect.poll(() => page.locator(".chart").first().locator("path.line").count()).toBe(2);
  await expect.poll(() => page.locator(".chart").count()).toBe(2);
  expect(await findings(page)).toEqual([]);
  await page.goto(new URL("pets?mode=runs", page.url()).href);
  await page.getByText("No training run was recorded beside this dataset.").waitFor();
  expect(await findings(page)).toEqual([]);
});
