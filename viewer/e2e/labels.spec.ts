/** Labels are set by keys, taken back, reviewed and committed. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { addressOf, count, open, query } from "./browser";

const caption = (page: Page, row: number) => page.locator(`#row-${row} .caption > span`).innerText();
const review = (page: Page) => page.getByTestId("edits").getByRole("button", { name: /^Review/ });

async function labelling(path: string, expected: string[] = []): Promise<Page> {
  const page = await open(path, { expected });
  await page.getByRole("button", { name: "Label label" }).click();
  await page.getByTestId("edits").waitFor();
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

test("a decision costs one key: what is labelled already is skipped", async () => {
  const page = await labelling("unlabelled?at=main@1&row=0");
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();
  let keys = 0;
  const press = (key: string) => {
    keys += 1;
    return page.keyboard.press(key);
  };

  await press("Shift+N");
  await press("n"); // to row 2, the first without a label
  for (let i = 0; i < 17; i += 1) await press("2"); // all that have none; rows 0, 1 and 5 have one
  await expect.poll(() => review(page).innerText()).toBe("Review 17 changes");
  expect(keys).toBe(17 + 2);
  await expect.poll(() => page.getByText("No row after this one is without a label.").count()).toBe(1);
  await review(page).click();
  const rows = page.getByRole("dialog", { name: "Review of edits" }).locator("tbody tr td:first-child");
  await expect.poll(() => rows.allInnerTexts()).toEqual(["2", "3", "4", ...Array.from({ length: 14 }, (_, i) => String(6 + i))]);
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
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
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
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
  await dialog.getByLabel("Message").fill("a dog");
  await dialog.getByRole("button", { name: "Commit to by-conflict" }).click();
  await expect.poll(() => dialog.getByRole("alert").innerText()).toContain("a branch of its own");
  await dialog.getByLabel("Branch").fill("a-dog");
  await dialog.getByRole("button", { name: "Commit to a-dog" }).click();

  await expect.poll(() => page.getByRole("button", { name: /^Version a-dog@/ }).count()).toBe(1);
  await expect.poll(() => caption(page, 10)).toBe("dog");
});

test("a whole dataset is labelled in one step that a reload keeps and undo takes back", async () => {
  const page = await open("catalog?label=label");
  await page.getByTestId("edits").waitFor();
  await page.getByRole("grid").focus();
  await page.keyboard.press("Control+a");
  await expect.poll(() => page.getByTestId("selection").innerText()).toContain("120,000 rows selected");
  await page.keyboard.press("2");
  await expect.poll(() => review(page).innerText()).toBe("Review 90,000 changes"); // the other 30,000 are dogs
  await expect.poll(() => page.getByTestId("selection").count()).toBe(0); // it is on the disk

  await page.reload(); // five times what the page could keep before
  await expect.poll(() => review(page).innerText()).toBe("Review 90,000 changes");
  await review(page).click();
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
  await expect.poll(async () => (await dialog.locator("tbody tr").allInnerTexts()).slice(0, 4)).toEqual(["0\tnone\tdog", "2\towl\tdog", "3\tcat\tdog", "4\tnone\tdog"]);
  await dialog.getByLabel("Message").fill("all of them");
  await dialog.getByLabel("Branch").fill("all-dogs");
  await dialog.getByRole("button", { name: "Commit to all-dogs" }).click();
  await expect.poll(() => page.getByRole("button", { name: /^Version all-dogs@/ }).count()).toBe(1);
  await query(page, "WHERE label = 'dog'");
  await expect.poll(() => count(page)).toBe("120,000 of 120,000 rows");

  await page.goto(addressOf("catalog?label=label&row=7"));
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByRole("grid").focus();
  await page.keyboard.press("3");
  await expect.poll(() => review(page).innerText()).toBe("Review 1 change");
  await page.getByTestId("edits").getByRole("button", { name: "Undo" }).click();
  await expect.poll(() => review(page).innerText()).toBe("Review 0 changes");
});

test("a branch is merged into main, and each cell that both changed gets the value that is chosen", async () => {
  const page = await labelling("unlabelled?at=main@1&row=14");
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();
  for (const key of ["2", "2", "2"]) await page.keyboard.press(key);
  await expect.poll(() => review(page).innerText()).toBe("Review 3 changes");
  const other = { branch: "main", message: "another hand", operations: [{ op: "update", tensor: "label", rows: [14, 15], value: "owl" }] };
  expect((await page.request.post(new URL("/v1/datasets/unlabelled/transactions", page.url()).href, { data: other })).ok()).toBe(true);
  await review(page).click();
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
  await dialog.getByLabel("Message").fill("three dogs");
  await dialog.getByLabel("Branch").fill("three-dogs");
  await dialog.getByRole("button", { name: "Commit to three-dogs" }).click();

  await page.getByRole("button", { name: "Merge into main" }).click();
  const merge = page.getByRole("dialog", { name: "Merge three-dogs into main" });
  await expect.poll(() => merge.locator("td").allInnerTexts()).toEqual(["14", "label", "none", "owl", "dog", "15", "label", "none", "owl", "dog"]);
  expect(await merge.getByRole("listitem").allInnerTexts()).toContain("label: 1 row without a conflict");
  expect(await findings(page)).toEqual([]);
  await merge.getByRole("radio", { name: "row 14, label: main" }).check();
  await expect.poll(() => merge.getByText("1 conflict to decide").count()).toBe(1);
  await merge.getByRole("radio", { name: "row 15, label: three-dogs" }).check();
  await merge.getByRole("button", { name: "Merge into main" }).click();

  await expect.poll(() => page.getByRole("button", { name: /^Version main@/ }).count()).toBe(1);
  await expect.poll(() => Promise.all([14, 15, 16].map((row) => caption(page, row)))).toEqual(["owl", "dog", "dog"]);
});

test("two tabs see each other's labels, and what one committed the other does not commit again", async () => {
  const path = "unlabelled?at=by-two-tabs&label=label";
  const one = await open("unlabelled?row=7");
  await one.getByTestId("row-panel").getByText("Load this row").waitFor(); // the page has its session
  const branch = await one.request.post(new URL("/v1/datasets/unlabelled/branches", one.url()).href, { data: { name: "by-two-tabs", at: "main@1" } });
  expect(branch.ok()).toBe(true);
  await one.goto(addressOf(`${path}&row=7`));
  const two = await open(`${path}&row=8`);
  for (const [page, row] of [[one, 7], [two, 8]] as const) {
    await page.getByTestId("row-panel").getByText("Load this row").waitFor();
    await page.getByTestId("grid").focus();
    await page.keyboard.press("2");
    await expect.poll(() => caption(page, row)).toBe("dog");
  }
  for (const page of [one, two]) await expect.poll(() => review(page).innerText()).toBe("Review 2 changes");
  await expect.poll(() => caption(one, 8)).toBe("dog");

  await review(one).click();
  await one.getByRole("dialog", { name: "Review of edits" }).getByLabel("Message").fill("again");
  await review(two).click();
  const dialog = two.getByRole("dialog", { name: "Review of edits" });
  await dialog.getByLabel("Message").fill("two dogs");
  await dialog.getByRole("button", { name: "Commit to by-two-tabs" }).click();
  await expect.poll(() => two.getByRole("button", { name: /^Version by-two-tabs@2/ }).count()).toBe(1);
  await one.getByText("They were committed in another tab, as by-two-tabs@2.").waitFor();
  expect(await one.getByRole("button", { name: "Commit to by-two-tabs" }).isDisabled()).toBe(true);
  await one.getByRole("button", { name: "Back" }).click();
  await one.getByTestId("edits").getByRole("button", { name: "Show" }).click();
  await expect.poll(() => caption(one, 7)).toBe("dog");
  await expect.poll(() => review(one).innerText()).toBe("Review 0 changes");
});

test("labels made before somebody else's commit are carried over to it, but not over its own", async () => {
  const page = await open("unlabelled?row=10");
  await page.getByTestId("row-panel").getByText("Load this row").waitFor(); // the page has its session
  const post = (route: string, data: object) => page.request.post(new URL(`/v1/datasets/unlabelled/${route}`, page.url()).href, { data });
  expect((await post("branches", { name: "by-carrying", at: "main@1" })).ok()).toBe(true);
  await page.goto(addressOf("unlabelled?at=by-carrying&row=10&label=label"));
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();
  for (const key of ["2", "2", "2"]) await page.keyboard.press(key);
  await expect.poll(() => review(page).innerText()).toBe("Review 3 changes");
  const operations = [{ op: "update", tensor: "label", rows: [11], value: "owl" }, { op: "delete", rows: [0, 1] }];
  expect((await post("transactions", { branch: "by-carrying", message: "another hand", operations })).ok()).toBe(true);

  await page.reload();
  await page.getByText("3 changes not committed at by-carrying@1.").waitFor();
  await expect.poll(() => review(page).innerText()).toBe("Review 0 changes");
  expect(await findings(page)).toEqual([]);
  await page.getByRole("button", { name: "Carry over" }).click();
  await expect.poll(() => review(page).innerText()).toBe("Review 2 changes");
  await expect.poll(() => Promise.all([8, 9, 10].map((row) => caption(page, row)))).toEqual(["dog", "owl", "dog"]); // two rows above them are gone
  await page.getByText("row 11: label changed.").waitFor();
  await page.reload();
  await expect.poll(() => review(page).innerText()).toBe("Review 2 changes");
});

test("without a connection a row that is not read is not labelled, and no bar is covered", async () => {
  const page = await labelling("clusters?row=250", ["ERR_INTERNET_DISCONNECTED"]);
  await page.getByTestId("row-panel").getByText("Load this row").waitFor();
  await page.getByTestId("grid").focus();
  await page.context().setOffline(true);
  for (const key of ["3", "2", "1"]) await page.keyboard.press(key);
  await page.getByTestId("offline").waitFor();
  await page.getByText("No connection to the server: rows that are not read yet are not labelled.").waitFor();
  await expect.poll(() => review(page).innerText()).toBe("Review 1 change");
  const [banner, bar] = [await page.getByTestId("offline").boundingBox(), await page.getByTestId("edits").boundingBox()];
  expect((banner?.y ?? 0) + (banner?.height ?? 999)).toBeLessThanOrEqual(bar?.y ?? 0);
  await page.context().setOffline(false);
  await page.getByTestId("offline").waitFor({ state: "detached" });
  await expect.poll(() => review(page).innerText()).toBe("Review 1 change");
});
