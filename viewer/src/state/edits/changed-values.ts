/** What a change did to a value, in a line: the boxes and classes that differ, not how many there are. */
import { isSummary, type CellValue, type Summary, type TensorInfo } from "../../api/client";
import { formatBytes } from "../../format";
import { describeValue } from "../../lenses";
import { isSame } from "./steps";

const MOST = 3; // items that a line has
const LONG = 240; // characters of a text that a line has
const AROUND = 40; // of them, before the first that differs

/** A value as it differs from another; both have their items in one order. */
export function sayChanged(value: CellValue | Summary, other: CellValue | Summary, tensor: TensorInfo): string {
  if (value === null) return "none";
  const text = textOf(value);
  if (text !== null && text.length > LONG) return excerptOf(text, textOf(other) ?? text) + (isSummary(value) ? ` (${formatBytes(value.nbytes ?? 0)})` : "");
  if (isSummary(value) || !Array.isArray(value) || !(tensor.kind === "bbox" || tensor.kind === "class_label")) return describeValue(value, tensor);
  if (value.length === 0) return "no objects";
  const others = Array.isArray(other) ? other : [];
  const differ = value.flatMap((item, i) => (isSame(item, others[i] ?? null) ? [] : [i]));
  const told = differ.length > 0 ? differ : value.map((_, i) => i);
  const items = told.slice(0, MOST).map((i) => `${i}: ${sayItem(value[i] ?? null, tensor)}`);
  return [...items, ...(told.length > MOST ? [`and ${told.length - MOST} more`] : [])].join(", ");
}

function textOf(value: CellValue | Summary): string | null {
  const text = isSummary(value) ? value.preview : value;
  return typeof text === "string" ? text : null;
}

/** A long text from before the first character that differs from another. */
function excerptOf(text: string, other: string): string {
  const [characters, others] = [Array.from(text), Array.from(other)]; // code points: none is cut in two
  const differs = characters.findIndex((character, i) => character !== others[i]);
  const from = Math.max(0, Math.min(differs - AROUND, characters.length - LONG));
  const shown = characters.slice(from, from + LONG).join("");
  return `${from > 0 ? "… " : ""}${shown}${from + LONG < characters.length ? " …" : ""}`;
}

function sayItem(item: CellValue, tensor: TensorInfo): string {
  if (Array.isArray(item)) return `[${item.map((edge) => (typeof edge === "number" ? Math.round(edge * 100) / 100 : typeof edge === "string" ? edge : JSON.stringify(edge))).join(", ")}]`;
  return typeof item === "number" ? (tensor.names?.[item] ?? String(item)) : JSON.stringify(item);
}
