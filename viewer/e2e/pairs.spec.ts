/** Rows by two tensors: cells tell their rows, filter by a click or a key, and say what is in none. */
import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { count, open } from "./browser";

const asked = (page: Page) => new URL(page.url()).searchParams.get("q");
const table = (page: Page, name: string) => page.getByRole("group", { name, exact: true });

/** What the cells with rows say, from the top. */
function cells(within: Locator): Promise<string[]> {
  return within.locator("[data-cell]:not([aria-disabled=true])").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? ""));
}

test("a class by a number is a table of cells that filter, and what is in none is told", async () => {
  const page = await open("measured?count=split");
  await page.getByLabel("split by").selectOption("tokens");

  const split = table(page, "split by tokens");
  await expect.poll(() => cells(split)).toEqual([
    "train, length of tokens 0: 5 rows",
    "train, length of tokens 1: 5 rows",
    "train, length of tokens 2: 5 rows",
    "it's, length of tokens 0: 4 rows",
    "it's, length of tokens 1: 5 rows",
    "it's, length of tokens 2: 5 rows",
  ]);
  expect(await split.innerText()).toContain("1 row in no cell: NULL, empty or not finite");
  expect(new URL(page.url()).searchParams.getAll("by")).toEqual(["split", "tokens"]);
  expect(await split.locator(".median").allInnerTexts()).toEqual(["1", "1"]);
  expect(await findings(page)).toEqual([]);

  await split.getByRole("button", { name: "it's, length of tokens 0: 4 rows" }).click();
  await expect.poll(() => count(page)).toBe("4 of 30 rows");
  expect(asked(page)).toBe("WHERE split = 'it''s' AND LENGTH(tokens) = 0");
  await expect.poll(() => cells(split)).toEqual(["it's, length of tokens 0: 4 rows"]);

  await split.locator("[data-cell]").click(); // the filter again
  await expect.poll(() => count(page)).toBe("30 rows");
});

test("numbers by numbers go up and to the right, and keys reach each cell", async () => {
  const page = await open("measured?count=tokens&by=tokens&by=plane");
  const tokens = table(page, "tokens by plane");
  await expect.poll(() => cells(tokens)).toEqual([0, 1, 2].map((n) => `length of plane 4, length of tokens ${n}: 10 rows`));

  await tokens.locator("[data-cell]").first().focus();
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => tokens.getByTestId("told-pair").innerText()).toBe("length of plane 4, length of tokens 1: 10 rows");
  await page.keyboard.press("Enter");

  await expect.poll(() => count(page)).toBe("10 of 30 rows");
  expect(asked(page)).toBe("WHERE LENGTH(plane) = 4 AND LENGTH(tokens) = 1");
});

test("tensors without common values and one without places say so", async () => {
  const page = await open("measured?count=nothing,split&by=split&by=nothing");
  await expect.poll(() => table(page, "split by nothing").innerText()).toContain("no row has a value of both");
  const refused = await open("measured?count=split&by=split&by=id", { expected: ["status of 400"] });
  await expect.poll(() => table(refused, "split by id").innerText()).toContain("neither classes nor a number");
});
