/** What is not the usual: nothing at all, far too much, a server that is gone. */
import { expect, test } from "vitest";
import { addressOf, cellPixel, count, open, pixel, query } from "./browser";

test("a dataset without rows says how to fill it", async () => {
  const page = await open("empty");

  await expect.poll(() => count(page)).toBe("0 rows");
  await expect.poll(() => page.getByTestId("empty").innerText()).toContain("This version has no rows");
  await expect.poll(() => page.getByRole("option").count()).toBe(0);
});

test("a row whose image is NULL says so in its place", async () => {
  const page = await open("nulls?row=0");

  await expect.poll(() => page.locator("#row-0 .missing").innerText()).toBe("NULL");
  await expect.poll(() => page.locator("[data-testid=row-panel] td.null").allInnerTexts()).toEqual(Array(3).fill("NULL"));
  await expect.poll(() => page.locator("[data-testid=row-panel] img").count()).toBe(0);
});

test("an image of a hundred megapixels is seen whole at once, and each of its pixels", async () => {
  const page = await open("huge?row=0");
  const panel = page.locator("[data-testid=row-panel] img");
  const isThere = (image: Element) => (image as HTMLImageElement).naturalWidth > 0;
  await expect.poll(() => panel.evaluate(isThere).catch(() => false)).toBe(true);
  await expect.poll(() => panel.evaluate((image) => (image as HTMLImageElement).naturalWidth)).toBeLessThanOrEqual(1024);

  await page.keyboard.press("Enter");
  const canvas = "[data-testid=detail-view] canvas";
  const isRed = async (x: number, y: number) => {
    const [red = 0, green = 255] = (await pixel(page, canvas, x, y)) ?? [];
    return red > 200 && green < 90;
  };
  const isMiddleRed = async () => {
    const { width, height } = (await page.locator(canvas).boundingBox()) ?? { width: 0, height: 0 };
    return isRed(width / 2, height / 2);
  };
  await expect.poll(isMiddleRed).toBe(true); // a tenth of each side is
  await page.locator(canvas).hover(); // its middle
  for (let i = 0; i < 4; i += 1) await page.mouse.wheel(0, -600);

  await page.getByText(/^[\d,]{3,}%$/).waitFor(); // one pixel of the sample is one of the screen, or more
  await expect.poll(isMiddleRed).toBe(true);
});

test("a thousand classes are listed by how often they occur, and any is found by its name", async () => {
  const page = await open("classes");
  await expect.poll(() => count(page)).toBe("2,000 rows");
  await page.getByRole("button", { name: /^class 0000/ }).waitFor();
  await expect.poll(() => page.getByRole("switch", { name: /^Overlays of|^Show/ }).count()).toBeLessThan(200);

  await page.getByLabel("Filter classes").fill("0987");
  await page.getByRole("button", { name: /^class 0987/ }).click();

  await expect.poll(() => new URL(page.url()).searchParams.get("q")).toContain("'class 0987'");
  await expect.poll(() => count(page)).toBe("1 of 2,000 rows");
});

test("fifty tensors are all listed, and all values of a row", async () => {
  const page = await open("wide?row=0");

  await expect.poll(() => page.getByRole("switch", { name: /^t\d\d / }).count()).toBe(50);
  await expect.poll(() => page.locator("[data-testid=row-panel] tbody tr").count()).toBeGreaterThanOrEqual(50);
  const last = page.getByRole("switch", { name: /^t49/ });
  await last.scrollIntoViewIfNeeded();
  await expect.poll(() => last.isVisible()).toBe(true);
});

test("text that runs from right to left does so in the grid too", async () => {
  const page = await open("values");

  const value = page.locator("#row-0 .value", { hasText: "\u05e9" }).first();
  await expect.poll(() => value.evaluate((element) => getComputedStyle(element).direction).catch(() => "")).toBe("rtl");
});

/** Opens a row whose image is held back until `release` is called. */
async function openHeldRow() {
  const page = await open("pets");
  await page.locator("#row-7").waitFor();
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/tensors/image/7?*", (route) => released.then(() => route.continue()));
  await page.locator("#row-7").click();
  return { page, release };
}

test.each([
  ["the row panel", "[data-testid=row-panel] img", []],
  ["the detail view", "[data-testid=detail-view] img", ["Enter"]],
])("an image that arrives after its row was closed changes nothing: %s", async (_place, selector, keys) => {
  const { page, release } = await openHeldRow();
  await page.locator("[data-testid=row-panel] img").waitFor({ state: "attached" });
  for (const key of keys) await page.keyboard.press(key);
  const late = await page.waitForSelector(selector, { state: "attached" });

  await page.evaluate(() => history.replaceState(null, "", "/pets"));
  await page.evaluate(() => dispatchEvent(new PopStateEvent("popstate"))); // closes both at once
  await expect.poll(() => page.locator(selector).count()).toBe(0);
  const loaded = late.evaluate((image) => new Promise((resolve) => image.addEventListener("load", resolve)).then(() => true));
  release();

  expect(await loaded).toBe(true);
  await expect.poll(() => count(page)).toBe("40 rows");
  await expect.poll(() => page.locator(".hint", { hasText: "Select a row" }).count()).toBe(1);
});

test("when the server is gone the rows stay, and what is missing comes when it is back", async () => {
  const page = await open("pets", { expected: ["ERR_INTERNET_DISCONNECTED"] });
  await expect.poll(() => cellPixel(page, 0, 100, 20)).not.toBeNull();
  const asked: (() => void)[] = []; // for a sign of life: while one is waited for, the page asks by itself no more
  await page.route("**/healthz", (route) => new Promise<void>((resolve) => asked.push(() => resolve(route.fallback()))));

  await page.context().setOffline(true);
  await query(page, "WHERE score >= 0.5");
  await page.getByTestId("offline").waitFor();
  await expect.poll(() => count(page)).toBe("40 rows");
  await expect.poll(() => page.locator("#row-0").count()).toBe(1);

  await expect.poll(() => asked.length).toBe(1);
  await page.context().setOffline(false);
  await page.getByTestId("offline").getByRole("button", { name: "Retry now" }).click();
  await expect.poll(() => asked.length).toBe(2);
  for (const answer of asked) answer();

  await expect.poll(() => count(page)).toBe("20 of 40 rows");
  await expect.poll(() => page.getByTestId("offline").count()).toBe(0);
});

test("a page that is opened while the server is gone opens when it is back", async () => {
  const page = await open("pets", { expected: ["ERR_FAILED"] });
  await expect.poll(() => count(page)).toBe("40 rows");
  await page.route("**/v1/**", (route) => route.abort());
  await page.route("**/healthz", (route) => route.abort());
  await page.reload();
  await page.getByText("The server cannot be reached").waitFor();

  await page.unroute("**/v1/**"); // without a sign of life the page does not try again by itself
  await page.getByRole("button", { name: "Try again" }).click();
  await expect.poll(() => count(page)).toBe("40 rows");
  await page.unroute("**/healthz");

  await expect.poll(() => page.getByTestId("offline").count()).toBe(0);
});

test("a route that fails is one box in its place, with a button that tries again", async () => {
  const page = await open("pets?count=labels,score,image", { expected: ["status of 500"] });
  await expect.poll(() => page.getByTestId("statistics").count()).toBe(3);

  await page.route("**/statistics/**", (route) => route.fulfill({ status: 500, body: "{}", contentType: "application/json" }));
  await query(page, "WHERE score >= 0.5");

  const box = page.getByRole("complementary", { name: "Tensors and classes" }).getByTestId("route-problem");
  await expect.poll(() => count(page)).toBe("20 of 40 rows");
  await expect.poll(() => box.innerText()).toContain("Statistics of labels, score, image could not be loaded");
  expect(await page.getByRole("alert").count()).toBe(1);
  await page.unroute("**/statistics/**");
  await box.getByRole("button", { name: "Try again" }).click();
  await expect.poll(() => box.count()).toBe(0);
  await expect.poll(() => page.getByTestId("statistics").first().innerText()).toContain("20 rows");
});

test("images that cannot be loaded are said once above the grid, not in every cell", async () => {
  const page = await open("pets", { expected: ["status of 500"] });
  await expect.poll(() => cellPixel(page, 0, 100, 20)).not.toBeNull();
  await page.context().route("**/thumbnails", (route) => route.fulfill({ status: 500, body: '{"detail": "no space left"}', contentType: "application/problem+json" }));

  await page.keyboard.press("+");

  await expect.poll(() => page.getByTestId("fault").innerText()).toContain("no space left");
  expect(await page.getByRole("alert").count()).toBe(1);
  expect(await page.getByTestId("grid").innerText()).not.toContain("no space left");
  await page.context().unroute("**/thumbnails");
  await page.getByTestId("fault").getByRole("button", { name: "Try again" }).click();
  await expect.poll(() => page.getByTestId("fault").count()).toBe(0);
  await expect.poll(() => cellPixel(page, 0, 100, 20)).not.toBeNull();
});

test("a page whose server came back at another port goes on there, where it was", async () => {
  const moved = new URL(addressOf(""));
  moved.hostname = "localhost"; // another origin of the same server stands for another port
  const page = await open("pets?row=7", { expected: ["ERR_INTERNET_DISCONNECTED", "ERR_FAILED"], elsewhere: moved.host });
  await expect.poll(() => page.locator("#row-7").count()).toBe(1);
  await page.route("**/healthz", (route) => route.abort());
  await page.context().setOffline(true);
  await query(page, "WHERE score >= 0.5");
  await page.getByTestId("offline").waitFor();

  await page.context().setOffline(false);
  await page.getByLabel("Restarted at another port?").fill(moved.href);
  await page.getByRole("button", { name: "Continue there" }).click();

  await expect.poll(() => new URL(page.url()).hostname).toBe("localhost");
  await expect.poll(() => count(page)).toBe("20 of 40 rows");
});

test("without a connection the page says so once, not in every cell", async () => {
  const page = await open("pets", { expected: ["ERR_INTERNET_DISCONNECTED", "ERR_FAILED"] });
  await expect.poll(() => cellPixel(page, 0, 100, 20)).not.toBeNull();
  await page.route("**/healthz", (route) => route.abort());

  await page.context().setOffline(true);
  await page.keyboard.press("+"); // thumbnails of another size
  await page.locator("#row-3").click();
  await page.getByTestId("offline").waitFor();
  await page.keyboard.press("j");

  const words = () => page.locator("body").innerText();
  await expect.poll(async () => (await words()).match(/No connection/g)?.length).toBe(1);
  expect(await words()).not.toMatch(/TypeError|Failed to fetch/);
  await expect.poll(() => page.getByRole("alert").count()).toBe(1);
});

test("a part of the page that could not be loaded comes when the server responds again", async () => {
  const page = await open("clusters", { isFirst: true, expected: ["ERR_INTERNET_DISCONNECTED", "ERR_FAILED", "ERR_CONNECTION"] });
  await page.locator("#row-0").waitFor();
  await page.route("**/healthz", (route) => route.abort());
  await page.context().setOffline(true);
  await page.keyboard.press("m");
  await page.getByTestId("offline").waitFor();

  await page.context().setOffline(false);
  await page.unroute("**/healthz");

  await page.getByTestId("map").waitFor();
});

test("a part that the server no longer has is named, with what to do", async () => {
  const page = await open("clusters", { isFirst: true, expected: ["status of 404"] });
  await page.locator("#row-0").waitFor();
  await page.route("**/assets/MapView*", (route) => route.fulfill({ status: 404 }));

  await page.keyboard.press("m");

  await page.getByTestId("replaced").waitFor();
  await page.unroute("**/assets/MapView*");
  await page.getByRole("button", { name: "Reload" }).click();
  await page.getByTestId("map").waitFor();
});

test("a page whose server restarted keeps its rows, and goes on where it is after a new sign-in", async () => {
  const page = await open("numbers?row=3999999", { expected: ["status of 401"] });
  await expect.poll(() => page.locator("#row-3999999").count()).toBe(1);
  await page.getByTestId("row-panel").getByText("3,999,999").first().waitFor();

  await page.context().clearCookies(); // what a restart does: no cookie of before is valid
  await query(page, "WHERE x >= 1000");
  await page.getByTestId("signed-out").waitFor();
  await expect.poll(() => count(page)).toBe("4,000,000 rows");
  const other = await open("pets"); // the link that the new server printed
  await expect.poll(() => count(other)).toBe("40 rows");
  await page.bringToFront();

  await expect.poll(() => count(page)).toBe("3,999,000 of 4,000,000 rows");
  await expect.poll(() => page.getByTestId("signed-out").count()).toBe(0);
});

test("a dataset that is not there leads to those that are", async () => {
  const page = await open("nothing", { expected: ["status of 404"] });

  await page.getByRole("main").getByRole("button", { name: "pets", exact: true }).click();
  await expect.poll(() => count(page)).toBe("40 rows");
  await page.goto(addressOf("nothing"));
  await page.getByRole("button", { name: /^All datasets/ }).click();

  await page.getByRole("heading", { name: "Datasets" }).waitFor();
  await expect.poll(() => new URL(page.url()).pathname).toBe("/");
});
