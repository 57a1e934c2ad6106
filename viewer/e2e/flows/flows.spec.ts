/** Flows and jobs of a server that has a database of them: tests/extras/flows/test_flows_panel.py starts it. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "../axe";
import { open } from "../browser";

const flow = (page: Page, argument: string) => page.getByTestId("flow").filter({ hasText: `release('${argument}')` });

test("a flow is approved, retried and cancelled in the list, and a refusal is shown", async () => {
  const page = await open("", { expected: ["status of 409"] });
  await page.getByRole("button", { name: "Flows and jobs" }).click();
  await expect.poll(() => flow(page, "pets").innerText()).toContain("waiting: publish pets?");

  await flow(page, "pets").getByRole("button", { name: "Approve" }).click();
  await expect.poll(() => flow(page, "pets").innerText()).toContain("done");
  await flow(page, "broken").getByRole("button", { name: "Approve" }).click();
  await expect.poll(() => flow(page, "broken").innerText()).toContain("failed: ValueError: no such dataset");
  await flow(page, "late").getByRole("button", { name: "Cancel" }).click();
  await expect.poll(() => flow(page, "late").innerText()).toContain("cancelled");
  await flow(page, "late").getByRole("button", { name: "Retry" }).click();
  await expect.poll(() => flow(page, "late").innerText()).toContain("waiting: publish late?");
  await flow(page, "late").getByRole("button", { name: "Refuse" }).click();
  await expect.poll(() => flow(page, "late").innerText()).toContain("done");
});

test("a run has an address, which shows its steps", async () => {
  const page = await open("?mode=flows");
  await flow(page, "pets").getByRole("button", { name: /^release/ }).click();
  await expect.poll(() => page.getByTestId("flow-details").innerText()).toMatch(/publish\s+'PETS'/);

  const address = page.url();
  const again = await open(address.slice(new URL("/", address).href.length));

  await expect.poll(() => again.getByTestId("flow-details").innerText()).toMatch(/publish\s+'PETS'/);
  await page.goBack();
  await expect.poll(() => page.getByTestId("flow-details").count()).toBe(0);
});

test("jobs of the sign-in are listed, with their answer, and deleted", async () => {
  const page = await open("?mode=flows");
  await expect.poll(() => page.getByTestId("flow").count()).toBe(3);
  await page.evaluate(async () => {
    const headers = { Prefer: "respond-async", "Content-Type": "application/json" };
    await fetch("/v1/datasets/pets/query", { method: "POST", headers, body: JSON.stringify({ tql: "WHERE x < 3" }) });
  });
  const job = page.getByTestId("job");
  await expect.poll(() => job.innerText()).toMatch(/POST \/v1\/datasets\/pets\/query.*done/s);
  const answer = await job.getByRole("link", { name: "Answer" }).getAttribute("href");

  expect(await page.evaluate(async (href) => ((await (await fetch(href)).json()) as { rows: number }).rows, answer ?? "")).toBe(3);
  await job.getByRole("button", { name: "Delete" }).click();
  await expect.poll(() => job.count()).toBe(0);
});

test("flows and jobs fit a telephone and a wall, and have no serious fault of access", async () => {
  for (const width of [390, 2560]) {
    const page = await open("?mode=flows", { viewport: { width, height: 900 } });
    await expect.poll(() => page.getByTestId("flow").count()).toBe(3);
    await expect.poll(() => page.getByRole("main").evaluate((main) => main.scrollWidth <= main.clientWidth)).toBe(true);
    await expect.poll(() => findings(page), { message: `${width} px` }).toEqual([]);
  }
});
