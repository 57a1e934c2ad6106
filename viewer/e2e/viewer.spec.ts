/** What a user does with the viewer, in a real browser against a real server. */
import { expect, test } from "vitest";
import { addressOf, cellPixel, count, open, pixel, query } from "./browser";

test("a dataset opens with its rows, its tensors and its images", async () => {
  const page = await open("pets");

  await expect.poll(() => count(page)).toBe("40 rows");
  await page.getByRole("switch", { name: "image jpeg" }).waitFor();
  await expect.poll(() => cellPixel(page, 0, 100, 20)).not.toBeNull();
});

test("boxes lie where the data says, in the colour of their class", async () => {
  const page = await open("pets?row=1");
  const canvas = "[data-testid=row-panel] canvas";
  /** A pixel of the sample, 160 × 120; row 1 has one box (20, 30, 60, 50). */
  const at = async (x: number, y: number) => {
    const scale = (await page.locator(canvas).evaluate((element) => element.clientWidth)) / 160;
    return pixel(page, canvas, Math.round(x * scale), Math.round(y * scale));
  };
  // #4E9BFF, the colour of the most frequent class; edges between two pixels are a little paler.
  const isBlue = (color: number[] | null) =>
    color !== null && [78, 155, 255].every((part, i) => Math.abs(part - (color[i] ?? 0)) < 8);

  await expect.poll(async () => isBlue(await at(20, 60))).toBe(true);
  await expect.poll(async () => isBlue(await at(80, 60))).toBe(true);
  await expect.poll(() => at(120, 60)).toBeNull();
});

test("an image is looked at closely, and the wheel enlarges what is under it", async () => {
  const page = await open("pets?row=1");
  await page.locator("[data-testid=row-panel] canvas").waitFor();

  await page.keyboard.press("Enter");
  const detailView = page.getByTestId("detail-view");
  const scale = async () => Number.parseInt(/(\d+)%/.exec(await detailView.innerText())?.[1] ?? "0", 10);
  await expect.poll(scale).toBeGreaterThan(200); // 160 × 120 fills the page
  const whole = await scale();
  await detailView.locator("canvas").hover();
  await page.mouse.wheel(0, -300);
  await expect.poll(scale).toBeGreaterThan(1.5 * whole);
  await expect.poll(() => new URL(page.url()).searchParams.get("look")).toBe("1");

  await page.keyboard.press("Escape");
  await expect.poll(() => detailView.count()).toBe(0);
  await expect.poll(() => new URL(page.url()).searchParams.get("row")).toBe("1");
});

test("a camera's turn is ignored everywhere, because boxes lie in the stored pixels", async () => {
  const page = await open("turned?row=0"); // stored 160 × 120, red at the left; turned by its EXIF header
  const isRed = (color: number[] | null) => color !== null && (color[0] ?? 0) > 200 && (color[1] ?? 0) < 60;

  await expect.poll(async () => isRed(await cellPixel(page, 0, 8, 60))).toBe(true);
  const image = page.locator("[data-testid=row-panel] img");
  await expect.poll(() => image.evaluate((img) => img.clientWidth > img.clientHeight)).toBe(true);

  await page.keyboard.press("Enter");
  const canvas = "[data-testid=detail-view] canvas";
  const atLeft = async () => pixel(page, canvas, 20, (await page.locator(canvas).evaluate((element) => element.clientHeight)) / 2);
  await expect.poll(async () => isRed(await atLeft())).toBe(true);
});

test("o hides the overlays and shows them again", async () => {
  const page = await open("pets?row=1");
  const edge = () => pixel(page, "[data-testid=row-panel] canvas", 46, 150);
  await expect.poll(edge).not.toBeNull();

  await page.keyboard.press("o");
  await expect.poll(edge).toBeNull();

  await page.keyboard.press("o");
  await expect.poll(edge).not.toBeNull();
});

test("a query is run by its key, and its count and cost are told", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");

  await query(page, "WHERE score >= 0.5 ORDER BY score DESC");

  await expect.poll(() => count(page)).toBe("20 of 40 rows");
  await expect.poll(() => page.getByTestId("cost").innerText()).toMatch(/^[\d.]+ (ms|s) · [\d.]+ (B|bytes|kB)$/);
  await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBe("WHERE score >= 0.5 ORDER BY score DESC");
  await page.getByRole("option", { name: /^row 39\b/ }).waitFor();
});

test("an error is marked at its place, and the rows stay", async () => {
  const page = await open("pets", { expected: ["status of 400"] });
  await expect.poll(() => count(page)).toBe("40 rows");

  await query(page, "WHERE scoer > 1");

  await expect.poll(() => page.locator(".tql-error").innerText()).toBe("scoer");
  const problem = page.getByTestId("query-problem");
  await expect.poll(() => problem.innerText()).toContain("^^^^^");
  await expect.poll(() => problem.innerText()).toContain("did you mean 'score'");
  await expect.poll(() => count(page)).toBe("40 rows");
});

test("a class is a filter, and a second click takes it away", async () => {
  const page = await open("pets");

  await page.getByRole("button", { name: /^dog/ }).click();
  await expect.poll(() => count(page)).toBe("10 of 40 rows");
  await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBe("WHERE CONTAINS(labels, 'dog')");

  await page.getByRole("button", { name: /^dog/ }).click();
  await expect.poll(() => count(page)).toBe("40 rows");
});

test("keys move the selection, and the address brings it back", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");

  const chosen = () => new URL(page.url()).searchParams.get("row");
  for (const [key, row] of [["j", "0"], ["j", "1"], ["k", "0"]] as const) {
    await page.keyboard.press(key);
    await expect.poll(chosen).toBe(row);
  }
  await page.keyboard.press("ArrowDown");
  await expect.poll(() => Number(chosen())).toBeGreaterThan(1); // the next line
  const row = chosen();
  await page.reload();

  await page.locator(`#row-${row}[aria-selected=true]`).waitFor();
  await expect.poll(() => page.getByTestId("snippet").innerText()).toContain(`row = ds[${row}]`);
});

test("an older version shows its own rows, and back returns", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.getByRole("button", { name: "Version main@2" }).click();
  await page.getByRole("menuitem", { name: /first half/ }).click();
  await expect.poll(() => count(page)).toBe("20 rows");
  await expect.poll(() => new URL(page.url()).searchParams.get("at")).toBe("main@1");

  await page.goBack();
  await expect.poll(() => count(page)).toBe("40 rows");
});

test("a link to a row far down shows it at once", async () => {
  const page = await open("pets?row=39");
  await expect.poll(() => count(page)).toBe("40 rows");

  const row = page.locator("#row-39");
  await row.waitFor();
  const edges = async () => {
    const { y, height } = (await row.boundingBox()) ?? { y: 0, height: 0 };
    return [y, y + height] as const;
  };
  await expect.poll(async () => (await edges())[0]).toBeGreaterThan(80);
  await expect.poll(async () => (await edges())[1]).toBeLessThan(800);
});

test("rows that another version lacks are marked, and the rest is said in words", async () => {
  const page = await open("pets?row=25");
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.getByRole("button", { name: "Compare with another version" }).click();
  await page.getByRole("menuitem", { name: /first half/ }).click();

  await expect.poll(() => page.getByTestId("comparison").innerText()).toBe("+20 rows");
  await expect.poll(() => page.locator("#row-25").innerText()).toContain("added");
  await expect.poll(() => page.locator("#row-17").innerText()).not.toContain("added");
  await expect.poll(() => new URL(page.url()).searchParams.get("compare")).toBe("main@1");
});

test("a hidden tensor is hidden everywhere, and the address says so", async () => {
  const page = await open("pets?row=1");
  const edge = () => pixel(page, "[data-testid=row-panel] canvas", 46, 150);
  await expect.poll(edge).not.toBeNull();

  await page.getByRole("switch", { name: "boxes f32" }).click();

  await expect.poll(edge).toBeNull();
  await expect.poll(() => new URL(page.url()).searchParams.get("hide")).toBe("boxes");
});

test("text is shown as cards, and markup in the data stays text", async () => {
  const page = await open("notes?row=0");

  const card = page.locator("#row-0");
  await expect.poll(() => card.innerText()).toContain("<img src=x onerror=");
  await expect.poll(() => page.locator("main img, aside img").count()).toBe(0);
  await expect.poll(() => page.evaluate("window.wasRun")).toBeUndefined();
});

test("rows that cannot be fetched are said, and can be asked for again", async () => {
  const page = await open("pets", { expected: ["ERR_FAILED"] });
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.route("**/rows?*", (route) => route.abort());
  await query(page, "WHERE score >= 0.5");
  await page.getByTestId("fault").waitFor();

  await page.unroute("**/rows?*");
  await page.getByTestId("fault").getByRole("button").click();
  await page.getByRole("option", { name: /^row 20\b/ }).waitFor();
});

test("a query without rows says so, and leads back", async () => {
  const page = await open("pets?q=WHERE score > 2");

  await page.getByTestId("empty").getByRole("button").click();

  await expect.poll(() => count(page)).toBe("40 rows");
});

test("the last of four million rows is reached, beyond the browser's clamp of heights", async () => {
  const page = await open("numbers");
  await expect.poll(() => count(page)).toBe("4,000,000 rows");

  await page.keyboard.press("End");
  const last = page.locator("#row-3999999");
  await expect.poll(() => last.innerText()).toContain("3,999,999");

  await page.getByTestId("grid").evaluate((grid) => grid.scrollTo(0, (grid.scrollHeight - grid.clientHeight) / 2));
  await page.locator("#row-2000000").waitFor();
});

test("counts come after the first rows, which a million of them would keep waiting", async () => {
  const page = await open("");
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.getByRole("button", { name: "pets" }).click();
  await page.getByRole("button", { name: /^cat/ }).waitFor();

  const first = (part: string) => asked.findIndex((path) => path.includes(part));
  expect(first("/thumbnails")).toBeGreaterThanOrEqual(0);
  expect(first("/statistics/")).toBeGreaterThan(first("/thumbnails"));
});

test("a scroll gives its cells other rows, and makes none", async () => {
  const page = await open("pets?zoom=4");
  const grid = page.getByTestId("grid");
  await page.locator("#row-0").waitFor();
  await grid.evaluate((element) => element.scrollTo(0, 10 * (document.querySelector("#row-0")?.clientHeight ?? 0)));
  await expect.poll(() => page.locator("#row-0").count()).toBe(0);
  const shown = () => page.getByRole("option").evaluateAll((cells) => cells.map(({ id }) => id).sort());
  const before = await shown();
  await page.getByRole("option").evaluateAll((cells) => cells.forEach((cell) => cell.setAttribute("data-old", "")));

  await grid.evaluate((element) => element.scrollBy(0, 2.5 * (document.querySelector("[role=option]")?.clientHeight ?? 0)));

  await expect.poll(shown).not.toEqual(before);
  await expect.poll(() => page.locator("[role=option]:not([data-old])").count()).toBe(0);
});

test("a group is told as results, not as rows", async () => {
  const page = await open("pets?q=SELECT COUNT(*) AS n, AVG(score) AS mean");

  await expect.poll(() => count(page)).toBe("1 result from 40 rows");
  await expect.poll(() => page.locator("#row-0 [role=gridcell]").allInnerTexts()).toEqual(["0", "40", "0.5"]);
});

test("a lake lists its datasets, and a click opens one", async () => {
  const page = await open("");

  await page.getByRole("button", { name: "pets" }).click();

  await expect.poll(() => count(page)).toBe("40 rows");
  await expect.poll(() => new URL(page.url()).pathname).toBe("/pets");
});

test("a dataset that is not there is an error with its code", async () => {
  const page = await open("nothing", { expected: ["status of 404"] });

  await expect.poll(() => page.locator("main").innerText()).toContain("dataset-not-found");
});

test("without its link the page shows nothing, says how to get in, and takes a token", async () => {
  const page = await open("pets", { withToken: false, isFirst: true, expected: ["status of 401"] });

  await expect.poll(() => page.locator("main").innerText()).toContain("tensorlake serve");
  await expect.poll(() => page.getByRole("option").count()).toBe(0);

  const token = new URLSearchParams(new URL(addressOf("pets")).hash.slice(1)).get("token");
  await page.getByLabel("Token:").fill(token ?? "");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect.poll(() => count(page)).toBe("40 rows");
});

test("the token leaves the address at once, so that links can be shared", async () => {
  const page = await open("pets?row=3");
  await expect.poll(() => count(page)).toBe("40 rows");

  await expect.poll(() => page.url()).not.toContain("token");
});

test("light and dark follow the system, then the choice made here", async () => {
  const page = await open("pets", { theme: "light" });
  const theme = () => page.locator("html").getAttribute("data-theme");
  await expect.poll(theme).toBe("light");

  await page.getByRole("button", { name: /dark theme/ }).click();
  await expect.poll(theme).toBe("dark");

  await page.reload();
  await expect.poll(theme).toBe("dark");
});

test("the help lists every key", async () => {
  const page = await open("pets");
  await expect.poll(() => count(page)).toBe("40 rows");

  await page.keyboard.press("?");
  await expect.poll(() => page.getByRole("dialog").innerText()).toContain("show or hide overlays");

  await page.keyboard.press("Escape");
  await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
});

test("the place that one scrolled to is in the address, and a reload keeps it", async () => {
  const page = await open("numbers");
  await expect.poll(() => count(page)).toBe("4,000,000 rows");

  await page.getByTestId("grid").evaluate((grid) => grid.scrollTo(0, 50_000));
  await expect.poll(() => Number(new URL(page.url()).searchParams.get("top"))).toBeGreaterThan(100);
  const first = new URL(page.url()).searchParams.get("top") ?? "";
  await page.reload();

  await expect.poll(() => page.locator(`#row-${first}`).isVisible()).toBe(true);
  await expect.poll(() => new URL(page.url()).searchParams.get("top")).toBe(first);
  await query(page, "WHERE x < 10");
  await expect.poll(() => count(page)).toBe("10 of 4,000,000 rows");
  await expect.poll(() => new URL(page.url()).searchParams.get("top")).toBeNull();
});
