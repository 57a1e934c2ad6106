/** Statistics as a curator uses them: choose a tensor, read its numbers, filter by what is seen. */
import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import { findings } from "./axe";
import { count, open, query } from "./browser";

/** The statistics of one tensor. */
function card(page: Page, tensor: string): Locator {
  return page.getByRole("region", { name: `Statistics of ${tensor}`, exact: true });
}

async function choose(page: Page, tensor: string): Promise<Locator> {
  await page.getByRole("button", { name: `Statistics of ${tensor}`, exact: true }).click();
  return card(page, tensor);
}

/** What the bars of a histogram say, those without rows left out. */
function bars(within: Locator, title: string): Promise<string[]> {
  return within
    .getByRole("group", { name: `Histogram of ${title}`, exact: true })
    .locator("button:not([aria-disabled=true])")
    .evaluateAll((all) => all.map((one) => one.getAttribute("title") ?? ""));
}

const asked = (page: Page) => new URL(page.url()).searchParams.get("q");

test("any tensor can be chosen, and its shapes are a histogram whose bars filter", async () => {
  const page = await open("measured?count=");
  await expect.poll(() => count(page)).toBe("30 rows");

  const tokens = await choose(page, "tokens");
  await expect.poll(() => bars(tokens, "length of tokens")).toEqual(["0", "1", "2"]);
  await expect.poll(() => new URL(page.url()).searchParams.get("count")).toBe("tokens");
  await tokens.getByRole("button", { name: "Rows with length of tokens 2: 10 rows" }).click();

  await expect.poll(() => count(page)).toBe("10 of 30 rows");
  await expect.poll(() => asked(page)).toBe("WHERE LENGTH(tokens) = 2");
  await expect.poll(() => bars(tokens, "length of tokens")).toEqual(["2"]);
});

test("each axis of a ragged array has its histogram", async () => {
  const page = await open("measured?count=plane");
  const plane = card(page, "plane");

  await expect.poll(() => bars(plane, "length of plane")).toEqual(["4"]);
  await expect.poll(() => bars(plane, "axis 1 of plane")).toEqual(["5", "6"]);
  await plane.getByRole("button", { name: /^Rows with axis 1 of plane 6: 15 rows/ }).click();

  await expect.poll(() => count(page)).toBe("15 of 30 rows");
});

test("a drag over bars is a range, and finds what they count", async () => {
  const page = await open("measured?count=wide");
  const plot = card(page, "wide").getByRole("group", { name: "Histogram of wide" });
  await plot.locator("button").nth(29).waitFor();
  const place = async (bar: number) => {
    const { x, y, width, height } = (await plot.locator("button").nth(bar).boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    return [x + width / 2, y + height / 2] as const;
  };

  await page.mouse.move(...(await place(25)));
  await page.mouse.down();
  await page.mouse.move(...(await place(27)));
  await page.mouse.move(...(await place(29)));
  await expect.poll(() => card(page, "wide").getByTestId("told").innerText()).toBe(
    "9,223,372,036,854,775,803 to 9,223,372,036,854,775,807: 5 rows",
  );
  await page.mouse.up();

  await expect.poll(() => asked(page)).toBe("WHERE wide >= 9223372036854775803 AND wide <= 9223372036854775807");
  await expect.poll(() => count(page)).toBe("5 of 30 rows");
});

test("a range is chosen by the keyboard alone, and bars say their numbers", async () => {
  const page = await open("measured?count=tokens");
  const first = page.getByRole("button", { name: "Rows with length of tokens 0: 10 rows" });
  await first.focus();

  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Shift+ArrowRight");
  const told = card(page, "tokens").getByTestId("told").first();
  await expect.poll(() => told.innerText()).toBe("1 to 2: 20 rows");
  await page.keyboard.press("Enter");

  await expect.poll(() => asked(page)).toBe("WHERE LENGTH(tokens) >= 1 AND LENGTH(tokens) <= 3");
  await expect.poll(() => count(page)).toBe("20 of 30 rows");
});

/** What has the keyboard's focus, as it is told; "" where nothing has. */
const focused = (page: Page) =>
  page.evaluate<string>("document.activeElement === document.body ? '' : document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent");

test("the keyboard keeps its place when what it pressed goes away, and Space filters a range as Enter does", async () => {
  const page = await open("measured?count=tokens,split");
  const lengths = card(page, "tokens").getByRole("group", { name: "Histogram of length of tokens" });
  await lengths.getByRole("button", { name: /tokens 1: 10 rows$/ }).focus();
  await page.keyboard.press("ArrowLeft"); // by keys alone, as the ring that shows it tells
  await page.keyboard.press("Shift+ArrowRight");
  await page.keyboard.press("Space");
  await expect.poll(() => asked(page)).toBe("WHERE LENGTH(tokens) >= 0 AND LENGTH(tokens) < 2");
  await expect.poll(() => bars(card(page, "tokens"), "length of tokens")).toEqual(["0", "1"]);

  await page.keyboard.press("Enter"); // on the last bar, of which one is left
  await expect.poll(() => bars(card(page, "tokens"), "length of tokens")).toEqual(["1"]);
  await expect.poll(() => focused(page)).toBe("Rows with length of tokens 1: 10 rows");

  await card(page, "split").getByRole("button", { name: /^it's/ }).focus();
  await page.keyboard.press("Enter");
  await expect.poll(() => count(page)).toBe("5 of 30 rows");
  await expect.poll(() => focused(page)).toMatch(/^it's/);
  await page.getByRole("button", { name: "Remove split = 'it''s'" }).focus();
  await page.keyboard.press("Enter");
  await expect.poll(() => count(page)).toBe("10 of 30 rows");
  await expect.poll(() => focused(page)).toMatch(/^Remove LENGTH/);
});

test("filters add up, each is taken away alone, and the query is copied", async () => {
  const page = await open("measured?count=tokens,split&q=ORDER BY wide");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Rows with length of tokens 1: 10 rows" }).click();
  await expect.poll(() => card(page, "split").locator("h3").innerText()).toContain("10 rows"); // its classes are in their new order
  await card(page, "split").getByRole("button", { name: /^it's/ }).click();

  await expect.poll(() => asked(page)).toBe("WHERE LENGTH(tokens) = 1 AND split = 'it''s' ORDER BY wide");
  await expect.poll(() => count(page)).toBe("5 of 30 rows");
  await page.getByRole("button", { name: "Copy TQL" }).click();
  await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe("WHERE LENGTH(tokens) = 1 AND split = 'it''s' ORDER BY wide");

  await page.getByRole("button", { name: "Remove LENGTH(tokens) = 1" }).click();
  await expect.poll(() => asked(page)).toBe("WHERE split = 'it''s' ORDER BY wide");
  await expect.poll(() => count(page)).toBe("14 of 30 rows");
  await page.goBack();
  await expect.poll(() => count(page)).toBe("5 of 30 rows");
});

test("NULLs, NaN and infinities are counted beside the bars, and found", async () => {
  const page = await open("measured?count=score");
  const score = card(page, "score");

  await score.getByRole("button", { name: "NULL 2" }).waitFor();
  await score.getByRole("button", { name: "±∞ 1" }).waitFor();
  await score.getByRole("button", { name: "NaN 1" }).click();

  await expect.poll(() => asked(page)).toBe("WHERE score != score");
  await expect.poll(() => count(page)).toBe("1 of 30 rows");
  await expect.poll(() => score.innerText()).toContain("no finite values");
});

test("what holds nothing says so: all NULL, no rows, nothing to count", async () => {
  const page = await open("measured?count=nothing,id,wide");

  await expect.poll(() => card(page, "nothing").innerText()).toContain("all rows are NULL");
  await expect.poll(() => card(page, "id").innerText()).toContain("no statistics for");
  await query(page, "WHERE wide < 0");

  await expect.poll(() => card(page, "wide").innerText()).toContain("no rows");
});

test("truth values and fields of a struct are classes that filter", async () => {
  const page = await open("measured?count=pose/sure");

  await card(page, "pose/sure").getByRole("button", { name: /^true/ }).click();

  await expect.poll(() => asked(page)).toBe(`WHERE "pose/sure" = true`);
  await expect.poll(() => count(page)).toBe("10 of 30 rows");
});

test("statistics are those of the query and of the version that are shown", async () => {
  const page = await open("pets?count=score&at=main@1");
  const rows = () => card(page, "score").locator("h3").innerText();
  await expect.poll(rows).toContain("20 rows");

  await query(page, "WHERE CONTAINS(labels, 'dog') LIMIT 4");
  await expect.poll(rows).toContain("4 rows");
  await card(page, "score").getByRole("button", { disabled: false, name: /^Rows with score/ }).first().click();

  await expect.poll(() => asked(page)).toMatch(/^SELECT \* FROM \(WHERE CONTAINS\(labels, 'dog'\) LIMIT 4\) WHERE score >= /);
  await expect.poll(() => count(page)).toMatch(/^[123] of 20 rows$/);
});

test("statistics that cannot be counted say so in their place, and are counted again", async () => {
  const page = await open("pets?count=score", { expected: ["status of 500"] });
  await card(page, "score").getByRole("group").waitFor();

  const fault = { status: 500, body: '{"detail": "the disk is gone"}', contentType: "application/json" };
  await page.route("**/statistics/**", (route) => route.fulfill(fault));
  await query(page, "WHERE score >= 0.5");
  const box = page.locator(".schema").getByRole("alert");
  await expect.poll(() => box.innerText()).toContain("the disk is gone");

  await page.unroute("**/statistics/**");
  await box.getByRole("button", { name: "Try again" }).click();
  await card(page, "score").getByRole("group").waitFor();
});

test("statistics have no serious fault of access, in light and in dark, from 390 to 2560 px", async () => {
  for (const [theme, width] of [["light", 390], ["dark", 2560]] as const) {
    const page = await open("measured?count=score,wide,tokens,plane,split,nothing", { theme, viewport: { width, height: 900 } });
    await expect.poll(() => count(page)).toBe("30 rows");
    if (width === 390) await page.getByRole("button", { name: "Tensors and classes", exact: true }).click();
    await card(page, "nothing").getByText("all rows are NULL").waitFor();
    await card(page, "plane").getByRole("group").first().waitFor();

    await expect.poll(() => findings(page), { message: `${theme} ${width}` }).toEqual([]);
    const wide = page.locator(".schema");
    await expect.poll(() => wide.evaluate((panel) => panel.scrollWidth <= panel.clientWidth), { message: `${width} px` }).toBe(true);
    await page.close();
  }
});
