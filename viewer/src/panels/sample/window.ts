/** Windows of deep images: which value is black, and which is white. */
import type { WindowInfo } from "../../api/client";

export type Window = readonly [low: number, high: number];

const STEPS = 1000; // of real numbers, over their range

/** "low,high" → [low, high]; state/url.ts has checked it. */
export function readWindow(text: string | null): Window | null {
  const [low, high] = (text ?? "").split(",").map(Number);
  return text === null || low === undefined || high === undefined ? null : [low, high];
}

/** What the thumbs move over: the values of the image, and the window where it reaches beyond them. */
export function scaleOf(own: WindowInfo, [low, high]: Window, dtype: string): { least: number; most: number; step: number } {
  const [least, most] = [Math.min(own.minimum, own.low, low), Math.max(own.maximum, own.high, high)];
  return { least, most, step: dtype.startsWith("float") ? (most - least) / STEPS : 1 };
}

/** Moves one end; black stays below white. */
export function moveEnd(window: Window, end: 0 | 1, value: number, step: number): Window {
  const rounded = Number(value.toPrecision(6));
  return end === 0 ? [Math.min(rounded, window[1] - step), window[1]] : [window[0], Math.max(rounded, window[0] + step)];
}
