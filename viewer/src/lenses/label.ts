/** Class labels, shown by name. */
import { isSummary } from "../api/client";
import { joinWords } from "../format";
import type { Lens, Value } from "./lens";
import { shortShape } from "./dtype";
import { readText } from "./text";

export const labelLens: Lens = {
  brief: (tensor) => `class ${shortShape(tensor.shape)}`.trim(),
  describe(value, tensor) {
    const tallies = new Map<string, number>();
    for (const name of labelNames(value, tensor.names ?? [])) {
      tallies.set(name, (tallies.get(name) ?? 0) + 1);
    }
    const words = [...tallies].map(([name, count]) => (count > 1 ? `${name} × ${count}` : name));
    return joinWords(words) || "none";
  },
  caption(value, tensor) {
    return Array.isArray(value) ? null : this.describe(value, tensor);
  },
};

export function labelNames(value: Value, names: string[]): string[] {
  if (isSummary(value)) return [];
  const codes = Array.isArray(value) ? value : [value];
  return codes.map((code) => (typeof code === "number" ? (names[code] ?? String(code)) : readText(code)));
}
