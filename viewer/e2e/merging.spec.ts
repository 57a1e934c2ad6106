/** A branch is merged into main, with a choice for each conflict, seen before it is made. */
import type { Locator } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { addressOf, open } from "./browser";

const cells = (dialog: Locator) => dialog.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => (cell as HTMLElement).innerText.replaceAll(/\s+/g, " ").trim())));

test("boxes and their labels are one choice, and a row that main deleted may come back", async () => {
  const page = await open("disputed?at=fix&mode=edit&row=0");
  await page.getByTestId("edits").getByRole("button", { name: "Merge into main" }).click();
  const merge = page.getByRole("dialog", { name: "Merge fix into main" });
  await merge.getByText("2 conflicts to decide").waitFor();
  expect((await cells(merge)).map((row) => row.slice(0, 2))).toEqual([["0", "boxes and labels"], ["2", "whole row"]]);
  expect((await cells(merge))[1]?.slice(3)).toEqual(["stays deleted", "stays, with its kind"]);
  for (const side of ["before", "main", "fix"]) await expect.poll(() => merge.getByRole("img", { name: `row 0, ${side}` }).getAttribute("data-drawn")).toBe("true");
  expect((await cells(merge))[0]?.slice(2)).toEqual(["0: [10, 10, 60, 60] · 0: cat", "1: [70, 10, 100, 60], 2: [110, 10, 150, 60] · 0: dog, 1: dog, 2: dog", "0: [10, 10, 90, 90] · 0: cat"]);
  expect(await merge.getByRole("link", { name: "2" }).getAttribute("href")).toContain("at=fix");
  expect(await findings(page)).toEqual([]);
  const done = merge.getByRole("button", { name: "Merge into main" });
  await merge.getByRole("radio", { name: "row 0, boxes and labels: main" }).check();
  expect(await done.isDisabled()).toBe(true);
  await merge.getByRole("radio", { name: "row 2, whole row: fix" }).check();
  await done.click();

  await expect.poll(() => page.getByRole("button", { name: /^Version main@3/ }).count()).toBe(1);
  const rows = (await (await page.request.get(new URL("/v1/datasets/disputed/rows?version=main&columns=boxes,labels,kind", page.url()).href)).json()) as { rows: { labels: number[]; boxes: number[][]; kind: number }[] };
  expect(rows.rows.map(({ labels, boxes, kind }) => [labels, boxes.length, kind])).toEqual([[[1, 1, 1], 3, 0], [[0], 1, 0], [[0], 1, 1]]);
});

test("of long texts, in either direction, the merge shows what differs, and its buttons stay in reach", async () => {
  const page = await open("retold?at=fix&mode=edit&row=0", { viewport: { width: 760, height: 560 } });
  await page.getByTestId("edits").getByRole("button", { name: "Merge into main" }).click();
  const merge = page.getByRole("dialog", { name: "Merge fix into main" });
  await merge.getByText("3 conflicts to decide").waitFor();
  const [latin = [], hebrew = [], unbroken = []] = await cells(merge);
  expect([latin[2], latin[3], latin[4]].map((text) => /a (king|toad|queen) once/.exec(text ?? "")?.[1])).toEqual(["king", "toad", "queen"]);
  expect([hebrew[2], hebrew[3], hebrew[4]].map((text) => /(מלך|צפרדע|מלכה) היה/.exec(text ?? "")?.[1])).toEqual(["מלך", "צפרדע", "מלכה"]);
  for (const text of [...latin, ...hebrew, ...unbroken]) expect(text.length).toBeLessThan(250);
  const direction = (row: number) => merge.locator("tbody tr").nth(row).locator("bdi").last().evaluate((element) => getComputedStyle(element).direction);
  expect([await direction(0), await direction(1)]).toEqual(["ltr", "rtl"]);
  const isOverflown = (selector: string) => merge.locator(selector).evaluate((element) => element.scrollWidth > element.clientWidth);
  expect(await isOverflown(".list")).toBe(false);
  await merge.getByRole("button", { name: "all of fix" }).click();
  const done = merge.getByRole("button", { name: "Merge into main" });
  const [outer, inner] = [await merge.boundingBox(), await done.boundingBox()];
  expect((inner?.y ?? 1e9) + (inner?.height ?? 0)).toBeLessThanOrEqual((outer?.y ?? 0) + (outer?.height ?? 0));
  expect(await findings(page)).toEqual([]);
  await done.click();
  await expect.poll(() => page.getByRole("button", { name: /^Version main@3/ }).count()).toBe(1);
});

test("edited boxes are carried over with their labels, or not at all", async () => {
  const page = await open("disputed?at=main@1");
  await page.locator("#row-0").waitFor(); // then the page has signed in
  const post = (route: string, data: object) => page.request.post(new URL(`/v1/datasets/disputed/${route}`, page.url()).href, { data });
  expect((await post("branches", { name: "carried", at: "main@1" })).ok()).toBe(true);
  const review = page.getByTestId("edits").getByRole("button", { name: /^Review/ });
  for (const [row, count] of [[1, 2], [2, 4]]) {
    await page.goto(addressOf(`disputed?at=carried&mode=edit&row=${row}`));
    await page.getByTestId("shape-editor").waitFor();
    await review.waitFor();
    await page.keyboard.press("n");
    await page.getByTestId("selected-shape").waitFor();
    await page.keyboard.press("Delete");
    await expect.poll(() => review.innerText()).toBe(`Review ${count} changes`);
  }
  const operations = [{ op: "update", tensor: "labels", rows: [1], values: [["dog"]] }]; // as many as before
  expect((await post("transactions", { branch: "carried", message: "another hand", operations })).ok()).toBe(true);

  await page.reload();
  await page.getByText("4 changes not committed at carried@1.").waitFor();
  await page.getByRole("button", { name: "Carry over" }).click();
  await page.getByText("2 changes not committed at carried@1. They stay there, since others changed at carried@2 what they are of:").waitFor();
  await page.getByText("row 1: boxes and labels changed.").waitFor();
  await expect.poll(() => review.innerText()).toBe("Review 2 changes");
  await review.click();
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
  expect((await dialog.locator("tbody tr").allInnerTexts()).map((text) => text.split("\t")[0])).toEqual(["2", "2"]);
});
