/** Labels are set by keys, taken back, reviewed and committed. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { addressOf, count, open, query } from "./browser";

const caption = (page: Page, row: number) => page.locator(`#row-${row} .caption > span`).innerText();
const review = (page: Page) => page.getByTestId("labels").getByRole("button", { name: /^Review/ });

async function labelling(path: string): Promise<Page> {
  const page = await open(path);
  await page.getByRole("button", { name: "Label label" }).click();
  await page.getByTestId("labels").waitFor();
  return page;
}

test("a key gives the row its class and goes on to the next, and undo takes it back", async () => {
  const page = await labelling("unlabelled?row=2");
  await page.getByTestId("grid").focus();

  for (const key of ["2", "3", "1"]) await page.keyboard.press(key); // faster than rows are read: none is lost
  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBe("5");
  await expect.poll(() => Promise.all([2, 3, 4].map((row) => caption(page, row)))).toEqual(["dog", "owl", "cat"]);
  await expect.poll(() => page.locator(".badge.edited").count()).toBe(3);
  await page.keyboard.press("n"); // row 5 has a label
  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBe("6");
  await page.keyboard.press("Control+z");
  await expect.poll(() => caption(page, 4)).toBe("");
  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBe("4");
  await page.keyboard.press("Control+Shift+Z");
  await expect.poll(() => caption(page, 4)).toBe("cat");

  await page.reload(); // a crash loses nothing
  await expect.poll(() => review(page).innerText()).toBe("Review 3 changes");
  await expect.poll(() => caption(page, 2)).toBe("dog");
  expect(await findings(page)).toEqual([]);
  await page.getByRole("button", { name: "Stop labelling" }).click();
  await expect.poll(() => caption(page, 2)).toBe("");
});

test("a class beyond the nine keys is found by its name, and selected rows get one together", async () => {
  const page = await labelling("unlabelled?row=7");
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();

  await page.keyboard.press("c");
  await page.keyboard.type("breed 17");
  await page.getByRole("option", { name: "breed 17" }).waitFor();
  await page.keyboard.press("Enter");
  await expect.poll(() => caption(page, 7)).toBe("breed 17");
  await page.locator("#row-9").click({ modifiers: ["Control"] });
  await page.locator("#row-12").click({ modifiers: ["Shift"] });
  await page.getByTestId("grid").focus();
  await page.keyboard.press("3");

  await expect.poll(() => Promise.all([9, 10, 11, 12].map((row) => caption(page, row)))).toEqual(Array(4).fill("owl"));
  await expect.poll(() => page.getByTestId("selection").count()).toBe(0);
  await page.locator("#row-0").click();
  await page.getByTestId("row-panel").getByText("cat").waitFor();
  await page.getByTestId("grid").focus();
  await page.keyboard.press("Backspace");
  await expect.poll(() => caption(page, 0)).toBe("");
  await expect.poll(() => review(page).innerText()).toBe("Review 6 changes");
});

test("labels are reviewed and committed on a branch, and main is as it was", async () => {
  const page = await labelling("unlabelled?row=2");
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();
  for (const key of ["2", "3"]) await page.keyboard.press(key);
  await expect.poll(() => review(page).innerText()).toBe("Review 2 changes");

  await review(page).click();
  const dialog = page.getByRole("dialog", { name: "Review of labels" });
  await expect.poll(() => dialog.locator("tbody tr").allInnerTexts()).toEqual(["2\tnone\tdog", "3\tnone\towl"]);
  expect(await findings(page)).toEqual([]);
  await dialog.getByLabel("Message").fill("two by hand");
  await dialog.getByLabel("Branch").fill("by-hand");
  await dialog.getByRole("button", { name: "Commit to by-hand" }).click();

  await expect.poll(() => dialog.isVisible()).toBe(false);
  await expect.poll(() => page.getByRole("button", { name: /^Version by-hand@/ }).count()).toBe(1);
  await expect.poll(() => review(page).innerText()).toBe("Review 0 changes");
  await expect.poll(() => caption(page, 2)).toBe("dog");
  expect(await page.locator(".badge.edited").count()).toBe(0);
  await query(page, "WHERE label = 'dog' OR label = 'owl'");
  await expect.poll(() => count(page)).toBe("2 of 20 rows");
  await page.goto(addressOf("unlabelled?at=main@1&q=WHERE label = 'dog'"));
  await expect.poll(() => count(page)).toBe("0 of 20 rows");
});

test("a commit that meets another one says so and keeps the labels, for a branch of their own", async () => {
  const page = await open("unlabelled?row=10", { expected: ["status of 409"] });
  await page.getByTestId("row-panel").getByText("Load this row").waitFor(); // the page has its session
  const branch = await page.request.post(new URL("/v1/datasets/unlabelled/branches", page.url()).href, { data: { name: "by-conflict", at: "main@1" } });
  expect(branch.ok()).toBe(true);
  await page.goto(addressOf("unlabelled?at=by-conflict&row=10&label=label"));
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();
  await page.keyboard.press("2");
  await expect.poll(() => review(page).innerText()).toBe("Review 1 change");
  const other = { branch: "by-conflict", message: "another hand", operations: [{ op: "update", tensor: "label", rows: [10], value: "owl" }] };
  const published = await page.request.post(new URL("/v1/datasets/unlabelled/transactions", page.url()).href, { data: other });
  expect(published.ok()).toBe(true);

  await review(page).click();
  const dialog = page.getByRole("dialog", { name: "Review of labels" });
  await dialog.getByLabel("Message").fill("a dog");
  await dialog.getByRole("button", { name: "Commit to by-conflict" }).click();
  await expect.poll(() => dialog.getByRole("alert").innerText()).toContain("another branch");
  await dialog.getByLabel("Branch").fill("a-dog");
  await dialog.getByRole("button", { name: "Commit to a-dog" }).click();

  await expect.poll(() => page.getByRole("button", { name: /^Version a-dog@/ }).count()).toBe(1);
  await expect.poll(() => caption(page, 10)).toBe("dog");
});
