/** Text, JSON and bytes: the beginning of the value. */
import { isSummary } from "../api/client";
import { formatBytes } from "../format";
import type { Lens, Value } from "./lens";

export const textLens: Lens = {
  brief: () => "text",
  describe: readText,
};

export const jsonLens: Lens = {
  brief: () => "json",
  describe: (value) => (isSummary(value) ? readText(value) : JSON.stringify(value)),
};

export const bytesLens: Lens = {
  brief: () => "bytes",
  describe: (value) => (isSummary(value) ? formatBytes(value.nbytes ?? 0) : readText(value)),
};

export function readText(value: Value): string {
  if (isSummary(value)) return typeof value.preview === "string" ? `${value.preview}…` : "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
