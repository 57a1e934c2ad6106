/** For everyone: axe finds nothing serious on any page, and the keyboard reaches everything. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { addressOf, count, open } from "./browser";

const PAGES: [string, string, (page: Page) => Promise<unknown>][] = [
  ["the list of datasets", "", (page) => page.getByRole("button", { name: "pets" }).waitFor()],
  ["rows of images", "pets?row=1", (page) => page.locator("[data-testid=row-panel] canvas").waitFor()],
  ["rows of values", "values?row=0", (page) => page.locator("[data-testid=row-panel] td").first().waitFor()],
  ["a close look", "shapes?row=5&look=1", (page) => page.getByTestId("matches").waitFor()],
  ["a query's error", "pets?q=WHERE scoer > 1", (page) => page.getByTestId("query-problem").waitFor()],
  ["no rows", "empty", (page) => page.getByTestId("empty").waitFor()],
  ["what differs", "edits?compare=main@1&diff=side&change=0", (page) => page.getByTestId("diff-image").waitFor()],
  ["an error", "nothing", (page) => page.getByText("dataset-not-found").waitFor()],
];

async function expectNoFindings(theme: "dark" | "light"): Promise<void> {
  const page = await open("", { theme, expected: ["status of 400", "status of 404"] });
  for (const [name, path, ready] of PAGES) {
    await page.goto(addressOf(path));
    await ready(page);
    await expect.poll(() => findings(page), { message: name }).toEqual([]);
  }
}

test("axe finds nothing serious on any page in the dark", async () => {
  await expectNoFindings("dark");
});

test("axe finds nothing serious on any page in the light", async () => {
  await expectNoFindings("light");
});

test("axe finds nothing serious in what opens over a page", async () => {
  const page = await open("named?q=WHERE x > 3");
  await expect.poll(() => count(page)).toBe("3 of 7 rows");

  for (const menu of ["Saved views", "Version main@2", "Compare with another version", /^Dataset lake \/ named/]) {
    await page.getByRole("button", { name: menu }).click();
    await page.getByRole("menuitem").first().waitFor();
    await expect.poll(() => findings(page), { message: String(menu) }).toEqual([]);
    await page.keyboard.press("Escape");
  }
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await expect.poll(() => findings(page), { message: "keys" }).toEqual([]);
});

test("all that can be pressed is reached by Tab, in the order that it is seen", async () => {
  const page = await open("edits?compare=main@1&row=0");
  await expect.poll(() => page.getByTestId("comparison").count()).toBe(1);
  const isFocusable = "button:not([tabindex='-1']):not(:disabled), a[href], input, select, summary, [tabindex='0'], [contenteditable=true]";
  const mark = "document.activeElement === document.body ? '' : (document.activeElement.dataset.seen ??= String(Math.random()))";

  /** How many can be pressed and are not reached; what comes late is there in the next walk. */
  const missed = async () => {
    const all = await page.locator(isFocusable).evaluateAll((all) => all.filter((one) => one.checkVisibility()).length);
    const seen = new Set<string>();
    for (let i = 0; i < all + 5; i += 1) {
      await page.keyboard.press("Tab");
      seen.add(await page.evaluate<string>(mark));
    }
    seen.delete("");
    return all - seen.size;
  };

  await expect.poll(missed).toBe(0);
});

test("a row is found, looked at, and left with the keyboard alone", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.keyboard.press("/");
  await page.keyboard.insertText("WHERE score >= 0.5");
  await page.keyboard.press("Control+Enter");
  await expect.poll(() => count(page)).toBe("20 of 40 rows");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByTestId("detail-view").waitFor();
  await page.keyboard.press("+");
  await page.keyboard.press("j");
  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBe("1");
  await page.keyboard.press("Escape");

  await expect.poll(() => page.getByTestId("detail-view").count()).toBe(0);
});

test("a menu is walked by arrows and left by Esc, back to its button", async () => {
  const page = await open("named");
  const button = page.getByRole("button", { name: "Saved views" });
  await button.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("menuitem").first().waitFor();

  await page.keyboard.press("ArrowDown");
  await expect.poll(() => page.evaluate("document.activeElement.getAttribute('role')")).toBe("menuitem");
  await page.keyboard.press("Escape");

  await expect.poll(() => button.evaluate((element) => element === document.activeElement)).toBe(true);
});
