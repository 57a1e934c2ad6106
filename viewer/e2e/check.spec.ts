/** Labels that predictions contradict are accepted by keys; duplicates are deleted on a branch. */
import { expect, test } from "vitest";
import { findings } from "./axe";
import { count, open } from "./browser";

test("likely mistakes are listed worst first, and keys accept or leave each without a click", async () => {
  const page = await open("suspect");
  await page.getByRole("button", { name: "Check: likely mistakes and duplicates" }).click();
  const list = page.getByTestId("mistakes");
  await list.getByText("2 likely mistakes, 2 undecided").waitFor();
  await list.getByText("1 row left out, with NaN among the probabilities").waitFor();
  const cards = list.getByRole("listitem");
  expect((await cards.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "))).toEqual(["row 9: cat → dog score 0.92 row 9", "row 4: dog → cat score 0.85 row 4"]);
  expect(await findings(page)).toEqual([]);
  const review = page.getByTestId("edits").getByRole("button", { name: /^Review/ });
  const says = async (row: number) => (await list.getByRole("listitem").filter({ hasText: `row ${row}` }).innerText()).replaceAll(/\s+/g, " ");
  await page.keyboard.press("y"); // no click before it
  await list.getByText("2 likely mistakes, 1 undecided").waitFor();
  await expect.poll(() => review.innerText()).toBe("Review 1 change");
  await page.keyboard.press("n"); // nor between them
  await list.getByText("2 likely mistakes, 0 undecided").waitFor();
  expect([await says(9), await says(4)]).toEqual(["row 9: cat → dog accepted row 9", "row 4: dog → cat left row 4"]);
  expect(await list.getByRole("button", { name: /^Accept all/ }).count()).toBe(0); // what was left is not accepted
  await page.keyboard.press("Control+z");
  await list.getByText("2 likely mistakes, 1 undecided").waitFor();
  await page.keyboard.press("k");
  await page.keyboard.press("y");
  await expect.poll(() => review.innerText()).toBe("Review 1 change");
  await page.keyboard.press("y"); // another thought about the one that was left
  await expect.poll(() => review.innerText()).toBe("Review 2 changes");
  await review.click();
  const dialog = page.getByRole("dialog", { name: "Review of edits" });
  await expect.poll(() => dialog.locator("tbody tr").allInnerTexts()).toEqual(["4\tdog\tcat", "9\tcat\tdog"]);
  await dialog.getByLabel("Message").fill("two corrections");
  await dialog.getByLabel("Branch").fill("corrected");
  await dialog.getByRole("button", { name: "Commit to corrected" }).click();
  await list.getByText("No label contradicts the predictions.").waitFor();
});

test("duplicates are listed cluster by cluster, and all but one are deleted on a branch", async () => {
  const page = await open("suspect?mode=duplicates", { expected: ["503", "ERR_FAILED"] });
  const list = page.getByTestId("duplicates");
  await list.getByText("2 rows in 1 cluster").waitFor();
  expect(await findings(page)).toEqual([]);
  await list.getByRole("button", { name: "keep all" }).click();
  await expect.poll(() => list.getByRole("button", { name: /^Delete/ }).count()).toBe(0);
  await list.getByRole("button", { name: "row 7: kept" }).click();
  await list.getByRole("button", { name: "row 2: will be deleted" }).waitFor();
  const remove = list.getByRole("button", { name: "Delete 1 other" });
  const name = () => list.getByLabel("on branch").inputValue();
  const branches = async () => ((await (await page.request.get(new URL("/v1/datasets/suspect/branches", page.url()).href)).json()) as { branches: { name: string }[] }).branches.map((one) => one.name).filter((one) => one.startsWith("without"));
  const first = await name();
  await page.route("**/transactions", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ title: "Too many", detail: "the server is at its limit", status: 503, code: "busy", type: "about:blank" }) }), { times: 1 });
  await remove.click();
  await list.getByText("the server is at its limit").waitFor();
  await expect.poll(branches).toEqual([]); // the branch that was refused its commit has ended
  await expect.poll(name).not.toBe(first); // whose name stays used
  const second = await name();
  await page.route("**/transactions", (route) => route.abort(), { times: 1 });
  await remove.click();
  await list.getByText("No connection to the server.").waitFor();
  expect(await name()).toBe(second);
  await remove.click(); // on the branch that was started
  await list.getByText("No row has a twin.").waitFor();
  await expect.poll(() => count(page)).toBe("11 rows");
  await page.getByRole("button", { name: "Merge into main" }).waitFor();
  expect(await branches()).toEqual([second]);
});

test("texts that are nearly alike are shown as texts, in their own direction", async () => {
  const page = await open("suspect?mode=duplicates");
  const list = page.getByTestId("duplicates");
  await list.getByLabel("Images, texts or vectors").selectOption("note");
  await list.getByText("2 rows in 1 cluster").waitFor();
  const cards = async () => (await list.getByRole("listitem").allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "));
  await expect.poll(cards).toEqual(["row 1: هذه ملاحظة طويلة تظهر مرتين في هذه البيانات kept row 1", "row 5: هذه ملاحظة طويلة تظهر مرتين في هذه البيانات! will be deleted row 5"]);
  await list.getByLabel("alike by, at least").fill("0.999");
  await page.keyboard.press("Tab");
  await list.getByText("No row has a twin.").waitFor();
  expect(await findings(page)).toEqual([]);
});

test("a dataset without predictions says what to store", async () => {
  const page = await open("people?mode=mistakes");
  await page.getByText("No tensor has a probability for each class of a label.").waitFor();
  await page.getByTestId("check").getByRole("button", { name: "Duplicates" }).click();
  await page.getByTestId("duplicates").getByRole("status").waitFor();
  expect(await findings(page)).toEqual([]);
});
