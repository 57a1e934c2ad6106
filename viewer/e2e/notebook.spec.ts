/** The widget of notebooks (tensorlake/dataset/display/widget.js) in a page of another origin, with the model that anywidget gives it. */
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Frame, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addressOf, open } from "./browser";

const WIDGET = readFileSync(new URL("../../tensorlake/dataset/display/widget.js", import.meta.url));
/** Anywidget's model: traits with `get`, `set`, `save_changes`, `on` and `off`. */
const CELL = `<!doctype html><div id="cell"></div><script type="module">
  import widget from "/widget.js";
  const [traits, heard] = [JSON.parse(decodeURIComponent(location.hash.slice(1))), new Map()];
  window.traits = traits;
  window.saved = [];
  window.messages = [];
  addEventListener("message", ({ data }) => messages.push(data));
  window.model = {
    get: (name) => traits[name],
    set: (name, value) => { traits[name] = value; for (const told of heard.get("change:" + name) ?? []) told(); },
    save_changes: () => saved.push(structuredClone(traits._page)),
    on: (event, told) => heard.set(event, [...(heard.get(event) ?? []), told]),
    off: (event, told) => heard.set(event, (heard.get(event) ?? []).filter((one) => one !== told)),
  };
  window.end = widget.render({ model, el: document.getElementById("cell") });
</script>`;
let cells: Server;
beforeAll(async () => {
  cells = createServer(({ url }, answer) => {
    const isWidget = url === "/widget.js";
    answer.setHeader("Content-Type", isWidget ? "text/javascript" : "text/html");
    answer.end(isWidget ? WIDGET : CELL);
  });
  await new Promise<void>((resolve) => cells.listen(0, "127.0.0.1", resolve));
});
afterAll(() => cells.close());

async function openCell(path: string): Promise<{ page: Page; viewer: Frame }> {
  const host = `127.0.0.1:${(cells.address() as AddressInfo).port}`;
  const traits = { address: addressOf(path), key: "a-key", height: 600, _page: {}, _wanted: {} };
  const page = await open(`http://${host}/cell#${encodeURIComponent(JSON.stringify(traits))}`, { withToken: false, elsewhere: host, expected: ["favicon"] });
  const frame = await (await page.waitForSelector("iframe")).contentFrame();
  if (frame === null) throw new Error("the frame has no page");
  return { page, viewer: frame };
}

const heard = (page: Page) => page.evaluate("traits._page");

test("rows that are picked in the page reach the notebook, and those of the notebook are selected in the page", async () => {
  const { page, viewer } = await openCell("pets?row=3");
  await expect.poll(() => heard(page)).toEqual({ version: "main@2", rows: [] });
  await viewer.locator("#row-3").click({ modifiers: ["Control"] });
  await expect.poll(() => heard(page)).toEqual({ version: "main@2", rows: [3, 4] });

  await page.evaluate(`model.set("_wanted", { version: "main@2", rows: [0, 2, 7, 8] })`);
  await viewer.getByText("3 rows selected").waitFor();
  await expect.poll(() => heard(page)).toEqual({ version: "main@2", rows: [0, 2, 7, 8] });
  await page.evaluate(`model.set("_wanted", { version: "main@1", rows: [5, 6] })`); // of a version that is not shown
  await page.evaluate(`document.querySelector("iframe").contentWindow.postMessage({ widget: "another", kind: "select", version: "main@2", rows: [5, 6] }, "*")`);
  await page.evaluate(`model.set("_wanted", { version: "main@2", rows: [] })`);
  await expect.poll(() => heard(page)).toEqual({ version: "main@2", rows: [] });
  expect(await page.evaluate("saved.filter(({ rows }) => rows[0] === 5)")).toEqual([]);
});

test("messages of other windows and without the key change nothing, and an ended widget hears no more", async () => {
  const { page, viewer } = await openCell("pets?row=3");
  await expect.poll(() => heard(page)).toEqual({ version: "main@2", rows: [] });
  await page.evaluate(`postMessage({ widget: "a-key", version: "main@2", rows: [1, 2] }, "*")`); // of the notebook itself
  await viewer.evaluate(`parent.postMessage({ widget: "a guess", version: "main@2", rows: [1, 2] }, "*")`);
  await expect.poll(() => page.evaluate("messages.filter(({ rows }) => rows[0] === 1).length")).toBe(2);
  expect(await heard(page)).toEqual({ version: "main@2", rows: [] });

  await page.evaluate("end()");
  await viewer.locator("#row-3").click({ modifiers: ["Control"] });
  await expect.poll(() => page.evaluate("messages.filter(({ rows }) => rows[0] === 3).length")).toBe(1);
  expect(await heard(page)).toEqual({ version: "main@2", rows: [] });
});
