/** What axe finds on a page. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const RUN = `axe.run({ resultTypes: ["violations"] }).then((result) => result.violations)`; // of others nothing is told

interface Finding {
  id: string;
  impact: string;
  nodes: { html: string; failureSummary: string }[];
}

/** What axe calls serious or critical, in a line each. */
export async function findings(page: Page): Promise<string[]> {
  const isThere = await page.evaluate<boolean>("'axe' in window");
  if (!isThere) await page.evaluate(AXE); // not a script of the page: its policy allows only the page's own
  const found = await page.evaluate<Finding[]>(RUN);
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`));
}
