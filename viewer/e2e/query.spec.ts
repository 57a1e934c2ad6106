/** Writing a query: offers, what is wrong while one writes, and what was asked before. */
import { expect, test } from "vitest";
import { addressOf, count, open, query } from "./browser";

/** The pets, whose query is written in the plain field until the editor is let `come`. */
async function openBeforeEditor() {
  const page = await open("about:blank");
  await page.route("**/assets/codemirror-*.js", (route) => held.then(() => route.fallback()));
  let come = () => {};
  const held = new Promise<void>((resolve) => (come = resolve));
  await page.goto(addressOf("pets"));
  await expect.poll(() => count(page)).toBe("40 rows");
  return { page, come };
}

test("the server's parser offers what could come next", async () => {
  const page = await open("pets", { expected: ["status of 400"] }); // of a text that is not whole yet
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.keyboard.press("/");
  await page.keyboard.type("WHERE sco");

  const offer = page.locator(".cm-tooltip-autocomplete li").first();
  await expect.poll(() => offer.innerText()).toContain("score");
  await offer.click();
  await expect.poll(() => page.locator(".cm-content").innerText()).toBe("WHERE score");
});

test("what was written before the editor came is in it, with the cursor, and runs", async () => {
  const { page, come } = await openBeforeEditor();

  await page.keyboard.press("/");
  await page.keyboard.insertText("WHERE score > 1");
  await page.keyboard.press("Control+Enter");
  await expect.poll(() => count(page)).toBe("0 of 40 rows");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.insertText("0.");
  come();
  await page.locator(".cm-focused").waitFor();
  await page.keyboard.insertText("0");

  await expect.poll(() => page.locator(".cm-content").innerText()).toBe("WHERE score > 0.01");
});

test("Esc leaves a query that was run before the editor came", async () => {
  const { page, come } = await openBeforeEditor();

  await page.keyboard.press("/");
  await page.keyboard.insertText("WHERE score >= 0.5");
  await page.keyboard.press("Control+Enter");
  await expect.poll(() => count(page)).toBe("20 of 40 rows");
  come();
  await page.locator(".cm-focused").waitFor();
  await page.keyboard.press("Escape");

  await expect.poll(() => page.locator(".cm-focused").count()).toBe(0);
});

test("what is wrong is marked while one writes, before anything runs", async () => {
  const page = await open("pets", { expected: ["status of 400"] });
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.keyboard.press("/");
  await page.keyboard.insertText("WHERE scoer > 1");

  await expect.poll(() => page.locator(".tql-error").innerText()).toBe("scoer");
  await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBeNull();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText("WHERE score > 1");
  await expect.poll(() => page.getByTestId("query-problem").count()).toBe(0);
});

test("what is being written stays when a row is selected or the rows are scrolled", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");
  await page.keyboard.press("/");
  await page.keyboard.insertText("WHERE score > 0.2");

  await page.locator("#row-2").click();
  await page.getByTestId("grid").evaluate((grid) => grid.scrollBy(0, 600));

  await expect.poll(() => new URL(page.url()).searchParams.get("top")).not.toBeNull();
  await expect.poll(() => page.getByLabel("TQL query").evaluate((field) => ("value" in field ? field.value : field.textContent))).toBe("WHERE score > 0.2");
});

test("a quote that does not end is told before the server is asked", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));

  await page.keyboard.press("/");
  await page.keyboard.insertText("WHERE CONTAINS(labels, 'zebra"); // no class begins like this: nothing is offered

  await expect.poll(() => page.locator(".tql-error").innerText()).toBe("'");
  await expect.poll(() => page.getByTestId("query-problem").innerText()).toContain("this text has no closing '");
  expect(asked.filter((url) => url.includes("/explain"))).toEqual([]);
});

test("what is offered is read first, and Esc shows what is wrong", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.keyboard.press("/");
  await page.keyboard.insertText("WHERE CONTAINS(labels, 'do");
  await page.locator(".cm-tooltip-autocomplete li", { hasText: "dog" }).waitFor();
  const problem = page.getByTestId("query-problem");
  await expect.poll(() => problem.isVisible()).toBe(false); // it would lie over the offers
  await page.keyboard.press("Escape");

  await expect.poll(() => problem.innerText()).toContain("this text has no closing '");
});

test("Enter runs the query, Tab takes the first completion, and Shift with Enter begins a line", async () => {
  const page = await open("pets", { expected: ["status of 400"] }); // of what was typed half, where that takes long
  await expect.poll(() => count(page)).toBe("40 rows");
  await page.keyboard.press("/");
  await page.locator(".cm-focused").waitFor();
  await page.keyboard.type("WHERE scor");
  await page.locator(".cm-tooltip-autocomplete li", { hasText: "score" }).waitFor();
  await page.keyboard.press("Tab");
  await expect.poll(() => page.locator(".cm-content").innerText()).toBe("WHERE score");

  await page.keyboard.press("Shift+Enter");
  await page.keyboard.insertText(">= 0.5");
  await page.keyboard.press("Enter");

  await expect.poll(() => count(page)).toBe("20 of 40 rows");
  expect(new URL(page.url()).searchParams.get("q")).toMatch(/^WHERE score\s+>= 0.5$/);
});

test("a class is offered inside the quotes that the editor closed", async () => {
  const page = await open("pets", { expected: ["status of 400"] });
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.keyboard.press("/");
  await page.locator(".cm-focused").waitFor(); // the plain field that is there before it closes no quotes
  await page.keyboard.type("WHERE CONTAINS(labels, 'do");
  await page.locator(".cm-tooltip-autocomplete li", { hasText: "dog" }).click();

  await expect.poll(() => page.locator(".cm-content").innerText()).toBe("WHERE CONTAINS(labels, 'dog')");
});

test("what was asked before can be asked again, after a reload too", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");
  await query(page, "WHERE score >= 0.5");
  await expect.poll(() => count(page)).toBe("20 of 40 rows");
  await page.getByRole("button", { name: "Show all rows" }).click();
  await page.reload();

  await page.getByRole("button", { name: "Previous queries" }).click();
  await page.getByRole("menuitem", { name: "WHERE score >= 0.5" }).click();

  await expect.poll(() => count(page)).toBe("20 of 40 rows");
});

test("a bar of a histogram is a filter, written as a query", async () => {
  const page = await open("numbers");
  await expect.poll(() => count(page)).toBe("4,000,000 rows");

  await page.getByRole("button", { name: /^Rows with x 0 to/ }).click();

  await expect.poll(() => count(page)).toBe("200,000 of 4,000,000 rows");
  await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBe("WHERE x >= 0 AND x < 200000");
});

test("a refused query leaves the rows of before, which look like it, and none of its conditions is active", async () => {
  const page = await open("pets", { expected: ["status of 400"] });
  await expect.poll(() => count(page)).toBe("40 rows");
  await query(page, "WHERE CONTAINS(labels, 'cat')");
  await expect.poll(() => count(page)).toBe("10 of 40 rows");
  await expect.poll(() => page.getByRole("button", { name: /^cat/ }).getAttribute("aria-pressed")).toBe("true");

  await query(page, "WHERE CONTAINS(labels, 'dog') AND scoer > 1");

  await expect.poll(() => page.getByTestId("refused").innerText()).toContain("those of the previous query");
  await expect.poll(() => page.locator(".line").first().evaluate((line) => Number(getComputedStyle(line).opacity))).toBeLessThan(1);
  await expect.poll(() => page.getByRole("button", { name: /^cat/ }).getAttribute("aria-pressed")).toBe("true");
  const asked = page.getByRole("group", { name: "Query conditions, not applied" });
  await expect.poll(() => asked.locator("code").first().evaluate((one) => getComputedStyle(one).textDecorationLine)).toBe("line-through");

  await page.getByRole("button", { name: "Remove scoer > 1" }).click();
  await expect.poll(() => count(page)).toBe("10 of 40 rows");
  await expect.poll(() => page.getByTestId("refused").count()).toBe(0);
});

test("the rows of a link whose query is refused do not look like its result", async () => {
  const page = await open("pets?q=WHERE scoer > 1", { expected: ["status of 400"] });

  await expect.poll(() => page.getByTestId("refused").innerText()).toContain("all rows");
  await expect.poll(() => page.locator(".line").first().evaluate((line) => Number(getComputedStyle(line).opacity))).toBeLessThan(1);
});

test("the example in the empty query bar is a query of this dataset", async () => {
  const page = await open("odd");
  const hint = page.locator("textarea, .cm-placeholder").first(); // the editor replaces the plain field when it is loaded
  const example = await hint.evaluate((element) => element.getAttribute("placeholder") ?? element.textContent);
  await expect.poll(() => count(page)).toBe("2 rows");

  await query(page, example);

  await expect.poll(() => page.getByTestId("query-problem").count()).toBe(0);
  await expect.poll(() => count(page)).toBe("2 of 2 rows");
});
