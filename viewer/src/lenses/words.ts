/** Tags, timestamps and UUIDs: short values as text. */
import { isSummary } from "../api/client";
import { readText } from "./text";
import type { Lens } from "./lens";

export const tagsLens: Lens = {
  brief: () => "tags",
  describe(value) {
    if (isSummary(value)) return readText(value);
    return Array.isArray(value) && value.length > 0 ? value.map(readText).join(", ") : "none";
  },
};

export const timestampLens: Lens = {
  brief: (tensor) => tensor.type.replace("Timestamp", "time").toLowerCase(),
  describe: (value) => (typeof value === "string" ? value.replace("T", " ") : readText(value)),
};

export const uuidLens: Lens = { brief: () => "uuid", describe: readText };
