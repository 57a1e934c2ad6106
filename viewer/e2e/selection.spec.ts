/** Rows are selected for an action, by the mouse and by keys. */
import { expect, test } from "vitest";
import { findings } from "./axe";
import { addressOf, count, open, query } from "./browser";

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

test("a hundred thousand separate rows are selected, shown by an address, and saved as a view", async () => {
  const page = await open("numbers?q=WHERE x % 40 = 7");
  await expect.poll(() => count(page)).toBe("100,000 of 4,000,000 rows");
  const bar = page.getByTestId("selection");

  await page.getByTestId("grid").focus();
  await page.keyboard.press("Control+a");
  await expect.poll(() => bar.innerText()).toContain("100,000 rows selected");
  await bar.getByRole("button", { name: "Copy TQL" }).click();
  await expect.poll(() => bar.getByRole("alert").innerText()).toContain("Save them as a view");
  await page.getByRole("button", { name: "Show all rows" }).click();
  await expect.poll(() => count(page)).toBe("4,000,000 rows");
  await bar.getByRole("button", { name: "Show only these" }).click();

  await expect.poll(() => page.getByTestId("selected-rows").innerText()).toBe("100,000 selected rows");
  await expect.poll(() => new URL(page.url()).searchParams.has("sel")).toBe(true);
  expect(page.url().length).toBeLessThan(600);
  await page.locator("#row-2").click();
  await page.getByTestId("row-panel").getByText("row = ds[87]").waitFor();
  await bar.getByRole("button", { name: "Save view" }).click();
  await page.keyboard.type("sevenths");
  await page.keyboard.press("Enter");
  await expect.poll(() => bar.innerText()).toContain("Saved as sevenths.");
  expect(await findings(page)).toEqual([]);

  await page.reload(); // the address names the rows
  await expect.poll(() => count(page)).toBe("100,000 of 4,000,000 rows");
  await page.goto(addressOf("numbers?view=sevenths"));
  await expect.poll(() => count(page)).toBe("100,000 of 4,000,000 rows");
});

test("selected rows that the server has lost are sent again, and of another's address the page says so", async () => {
  const page = await open("numbers?q=WHERE x % 400 = 7", { expected: ["status of 404"] });
  await expect.poll(() => count(page)).toBe("10,000 of 4,000,000 rows");
  await page.getByTestId("grid").focus();
  await page.keyboard.press("Control+a");
  await page.getByTestId("selection").getByRole("button", { name: "Show only these" }).click();
  await expect.poll(() => page.getByTestId("selected-rows").innerText()).toBe("10,000 selected rows");
  const id = new URL(page.url()).searchParams.get("sel") ?? "";

  const lost = `${id.slice(0, -9)}BBBBBBBB${id.slice(-1)}`; // as if it was signed by the server before
  await page.evaluate(([from, to]) => sessionStorage.setItem("tensorlake-selected", (sessionStorage.getItem("tensorlake-selected") ?? "").replace(from ?? "", to ?? "")), [id, lost]);
  await page.goto(addressOf(`numbers?sel=${lost}`));
  await expect.poll(() => page.getByTestId("selected-rows").innerText()).toBe("10,000 selected rows");
  await expect.poll(() => new URL(page.url()).searchParams.get("sel")).toBe(id);

  await page.goto(addressOf(`numbers?sel=${id.slice(0, -8)}AAAAAAAA`));
  await page.getByTestId("query-problem").waitFor();
  await expect.poll(() => page.getByTestId("refused").innerText()).toContain("all rows of this version");
});

test("s selects the rows whose vectors are nearest to that of the row, side by side with their scores", async () => {
  const page = await open("clusters?row=3");
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();
  await page.keyboard.press("s");

  await expect.poll(() => page.getByTestId("selection").getByRole("status").first().innerText()).toBe("24 rows selected, similar to row 3 by vector");
  const words = await page.getByTestId("contact-sheet").getByRole("button").allInnerTexts();
  expect(words.map((text) => Number(text.split(" · ")[0]) % 3)).toEqual(Array(24).fill(0)); // all of its cluster
  expect(words[0]).toMatch(/^3 · /);
  expect(await findings(page)).toEqual([]);
  await page.getByRole("button", { name: "Show only these" }).click();
  await expect.poll(() => count(page)).toBe("24 of 300 rows");
});

test("a dataset without vectors tells so when similar rows are asked for", async () => {
  const page = await open("pets?row=3");
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();
  await page.keyboard.press("s");

  await expect.poll(() => page.getByTestId("selection").getByRole("alert").innerText()).toContain("No tensor here is an embedding");
});
