/** Saved views: rows with a name, opened and given one. */
import { expect, test } from "vitest";
import { count, open, query } from "./browser";

test("a saved view is opened by its name, at its version, and the link keeps it", async () => {
  const page = await open("named");
  await expect.poll(() => count(page)).toBe("7 rows");

  await page.getByRole("button", { name: "Saved views" }).click();
  await page.getByRole("menuitem", { name: /^large 2 rows of main@1/ }).click();

  await expect.poll(() => count(page)).toBe("2 of 6 rows");
  await expect.poll(() => page.locator(".cm-content").innerText()).toBe("WHERE x > 3 ORDER BY x DESC");
  await page.reload();
  await expect.poll(() => count(page)).toBe("2 of 6 rows");
  await expect.poll(() => new URL(page.url()).searchParams.get("view")).toBe("large");
});

test("rows that were picked by hand are a view too, and their code names it", async () => {
  const page = await open("named?view=picked&row=0");

  await expect.poll(() => count(page)).toBe("2 of 6 rows");
  await expect.poll(() => page.getByTestId("snippet").innerText()).toContain('view = ds.views["picked"]\nrow = view[0]');
  await page.getByRole("button", { name: "Show all rows" }).click();

  await expect.poll(() => count(page)).toBe("6 rows");
  await expect.poll(() => new URL(page.url()).searchParams.get("view")).toBeNull();
});

test("a query's rows are given a name, and a name that is taken is refused in words", async () => {
  const page = await open("named", { expected: ["status of 400"] });
  await expect.poll(() => count(page)).toBe("7 rows");
  await query(page, "WHERE x > 4");
  await expect.poll(() => count(page)).toBe("2 of 7 rows");

  await page.getByRole("button", { name: "Saved views" }).click();
  const name = page.getByLabel("Name of the new view");
  await name.fill("large");
  await name.press("Enter");
  await expect.poll(() => page.locator(".panel [role=alert]").innerText()).toContain("'large'");
  await name.fill("best");
  await name.press("Enter");

  await page.getByRole("menuitem", { name: /^best 2 rows of main@2/ }).click();
  await expect.poll(() => new URL(page.url()).searchParams.get("view")).toBe("best");
  await expect.poll(() => count(page)).toBe("2 of 7 rows");
});
