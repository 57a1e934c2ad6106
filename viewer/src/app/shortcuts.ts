/** Keyboard shortcuts; the dialog shows the same table. */

export type Move = (step: "next" | "previous" | "down" | "up" | "first" | "last" | "page-down" | "page-up") => void;

export type Action =
  | { kind: "move"; step: Parameters<Move>[0] }
  | { kind: "query" }
  | { kind: "panel" }
  | { kind: "fold"; side: "left" | "right" }
  | { kind: "look" }
  | { kind: "overlays" }
  | { kind: "diff" }
  | { kind: "theme" }
  | { kind: "map" }
  | { kind: "runs" }
  | { kind: "zoom"; step: 1 | -1 }
  | { kind: "pan"; x: number; y: number }
  | { kind: "whole" }
  | { kind: "turn" }
  | { kind: "edit" }
  | { kind: "select" }
  | { kind: "select-all" }
  | { kind: "play" }
  | { kind: "frame"; by: 1 | -1 }
  | { kind: "help" }
  | { kind: "close" };

export const KEYS: { keys: string[]; what: string; action: Action }[] = [
  { keys: ["j", "ArrowRight"], what: "next row; → in the batch of a step: the next step", action: { kind: "move", step: "next" } },
  { keys: ["k", "ArrowLeft"], what: "previous row; ← in the batch of a step: the step before", action: { kind: "move", step: "previous" } },
  { keys: ["ArrowDown"], what: "down one line", action: { kind: "move", step: "down" } },
  { keys: ["ArrowUp"], what: "up one line", action: { kind: "move", step: "up" } },
  { keys: ["PageDown"], what: "down one screen", action: { kind: "move", step: "page-down" } },
  { keys: ["PageUp"], what: "up one screen", action: { kind: "move", step: "page-up" } },
  { keys: ["Home"], what: "first row", action: { kind: "move", step: "first" } },
  { keys: ["End"], what: "last row", action: { kind: "move", step: "last" } },
  { keys: ["Enter"], what: "open or close the detail view", action: { kind: "look" } },
  { keys: ["x"], what: "select the row for an action, or not; a click with Ctrl or ⇧ does too", action: { kind: "select" } },
  { keys: ["Ctrl+a"], what: "select all rows of the query", action: { kind: "select-all" } },
  { keys: ["/"], what: "edit the query", action: { kind: "query" } },
  { keys: ["p"], what: "go to tensors and classes", action: { kind: "panel" } },
  { keys: ["["], what: "fold or unfold tensors and classes", action: { kind: "fold", side: "left" } },
  { keys: ["]"], what: "fold or unfold the selected row", action: { kind: "fold", side: "right" } },
  { keys: ["o"], what: "show or hide overlays", action: { kind: "overlays" } },
  { keys: ["m"], what: "show rows as a map of their vectors, or as before", action: { kind: "map" } },
  { keys: ["r"], what: "show training runs, or rows as before", action: { kind: "runs" } },
  { keys: ["d"], what: "show or hide differences from the compared version", action: { kind: "diff" } },
  { keys: ["+", "="], what: "larger images, or zoom in", action: { kind: "zoom", step: 1 } },
  { keys: ["-"], what: "smaller images, or zoom out", action: { kind: "zoom", step: -1 } },
  { keys: ["Shift+ArrowLeft"], what: "pan left, or turn a scene", action: { kind: "pan", x: -1, y: 0 } },
  { keys: ["Shift+ArrowRight"], what: "pan right, or turn a scene", action: { kind: "pan", x: 1, y: 0 } },
  { keys: ["Shift+ArrowUp"], what: "pan up", action: { kind: "pan", x: 0, y: -1 } },
  { keys: ["Shift+ArrowDown"], what: "pan down", action: { kind: "pan", x: 0, y: 1 } },
  { keys: ["0"], what: "fit the image", action: { kind: "whole" } },
  { keys: ["e"], what: "edit boxes, polygons and keypoints in the detail view, or not", action: { kind: "edit" } },
  { keys: ["s"], what: "select rows similar to this one; in the detail view, side by side or one view", action: { kind: "turn" } },
  { keys: [" "], what: "play or pause frames, audio or video", action: { kind: "play" } },
  { keys: [","], what: "previous frame, or a second of audio back", action: { kind: "frame", by: -1 } },
  { keys: ["."], what: "next frame, or a second of audio on", action: { kind: "frame", by: 1 } },
  { keys: ["t"], what: "light or dark theme", action: { kind: "theme" } },
  { keys: ["?"], what: "keyboard shortcuts", action: { kind: "help" } },
  { keys: ["Escape"], what: "close, or leave the query", action: { kind: "close" } },
];

const NAMES: Record<string, string> = {
  ArrowRight: "→",
  ArrowLeft: "←",
  ArrowDown: "↓",
  ArrowUp: "↑",
  Escape: "Esc",
  Enter: "↵",
  PageDown: "PgDn",
  PageUp: "PgUp",
  " ": "Space",
};

const SHIFT = "Shift+";
const COMMAND = "Ctrl+"; // or ⌘

export function keyName(key: string): string {
  if (key.startsWith(COMMAND)) return `Ctrl ${keyName(key.slice(COMMAND.length)).toUpperCase()}`;
  return key.startsWith(SHIFT) ? `⇧ ${keyName(key.slice(SHIFT.length))}` : (NAMES[key] ?? key);
}

export function actionOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): Action | null {
  if (event.altKey) return null;
  const command = event.ctrlKey || event.metaKey ? COMMAND : "";
  const key = command + (event.shiftKey && event.key.startsWith("Arrow") ? SHIFT + event.key : event.key); // letters already include Shift
  return KEYS.find((entry) => entry.keys.includes(key))?.action ?? null;
}

/** The position after a move; without a selection, every move selects the first row. */
export function moveTo(
  step: Parameters<Move>[0],
  from: number | null,
  grid: { count: number; columns: number; lines: number },
): number | null {
  if (grid.count === 0) return null;
  if (from === null) return step === "last" ? grid.count - 1 : 0;
  const steps: Record<Parameters<Move>[0], number> = {
    next: 1,
    previous: -1,
    down: grid.columns,
    up: -grid.columns,
    "page-down": grid.columns * grid.lines,
    "page-up": -grid.columns * grid.lines,
    first: -from,
    last: grid.count - 1 - from,
  };
  const target = from + steps[step];
  if (target < 0 || target >= grid.count) {
    const isLine = step === "up" || step === "down";
    return isLine ? from : Math.min(Math.max(0, target), grid.count - 1);
  }
  return target;
}
