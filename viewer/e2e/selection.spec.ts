/** Rows are selected for an action, by the mouse and by keys. */
import { expect, test } from "vitest";
import { findings } from "./axe";
import { count, open, query } from "./browser";

test("rows are selected by clicks and keys, shown alone, and stay selected in another query", async () => {
  const page = await open("pets");
  await page.getByRole("option", { name: /^row 8\b/ }).waitFor();
  const bar = page.getByTestId("selection");

  await page.locator("#row-2").click({ modifiers: ["Control"] });
  await page.locator("#row-5").click({ modifiers: ["Shift"] });
  await expect.poll(() => bar.innerText()).toContain("4 rows selected");
  await page.locator("#row-8").click();
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.keyboard.press("x");
  await expect.poll(() => bar.innerText()).toContain("5 rows selected");
  await query(page, "WHERE score >= 0.1"); // without rows 0 to 3
  await expect.poll(() => page.getByRole("option", { name: /^selected row/ }).count()).toBe(3);

  await bar.getByRole("button", { name: "Show only these" }).click();
  await expect.poll(() => count(page)).toBe("5 of 40 rows");
  await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBe("WHERE ROW_NUMBER() BETWEEN 2 AND 5 OR ROW_NUMBER() IN (8)");
  expect(await findings(page)).toEqual([]);
  await page.getByTestId("grid").focus();
  await page.keyboard.press("Escape");
  await expect.poll(() => bar.count()).toBe(0);
});

test("rows of a table are selected as those of the grid", async () => {
  const page = await open("people");
  await page.locator("#row-9").waitFor();

  await page.locator("#row-3").click({ modifiers: ["Control"] });
  await page.locator("#row-9").click({ modifiers: ["Shift"] });

  await expect.poll(() => page.getByTestId("selection").innerText()).toContain("7 rows selected");
  await expect.poll(() => page.locator(".row.chosen").count()).toBe(7);
});
