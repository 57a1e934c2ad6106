/** What a player of one sample is given, and what keys ask of it; the file of a kind's player is named by its lens. */
import type { MediaInfo, TensorInfo } from "../api/client";
import type { Extent, Point } from "../canvas/geometry";
import type { Vector } from "./scene/orbit";

/** What the server makes of a sample for players. */
export type Part = "info" | "peaks" | "scene" | "window";
export type Options = Record<string, string | number>;

/** An array of NumPy. */
export interface Numbers {
  shape: readonly number[];
  values: ArrayLike<number>;
}

/** What the page draws over a scene. */
export interface SceneOverlay {
  /** How many boxes are drawn, and how many cannot be. */
  count: number;
  missing: number;
  /** `project` puts a place of the sample's space into the area. */
  draw: (context: CanvasRenderingContext2D, project: (place: Vector) => Point, area: Extent) => void;
}

export interface PlayerProps {
  tensor: TensorInfo;
  /** Names the sample: another one has another name. */
  label: string;
  /** Whether it has the middle of the page, else a part of the panel of a row. */
  isLarge: boolean;
  /** The frame to begin with; null for that which stands for the whole. */
  frame: number | null;
  /** The address of the sample, or of an image of it. */
  address: (options?: Options) => string;
  read: (part: Part, options: Options, signal: AbortSignal) => Promise<Response>;
  /** The same, as NumPy arrays. */
  arrays: (part: Part, options: Options, signal: AbortSignal) => Promise<ReadonlyMap<string, Numbers>>;
  /** Which values are black and white, as `low,high`; null where each image has its own. */
  window: string | null;
  /** Boxes over points and meshes. */
  overlay?: SceneOverlay | null;
  /** Told where it rests. */
  onrest: (frame: number) => void;
}

/** Keys of the page reach a player by these; what it lacks has no meaning for it. */
export interface Player {
  play?(): void;
  step?(by: number): void;
  zoom?(step: 1 | -1): void;
  pan?(x: number, y: number): void;
  showWhole?(): void;
}

export async function readInfo({ read }: Pick<PlayerProps, "read">, signal: AbortSignal): Promise<MediaInfo> {
  return (await (await read("info", {}, signal)).json()) as MediaInfo;
}

/** 75.25 → 1:15.2; hours only where there are any. */
export function formatTime(seconds: number): string {
  const tenths = Math.floor(Math.max(0, seconds) * 10 + 1e-6);
  const [hours, minutes] = [Math.floor(tenths / 36_000), Math.floor(tenths / 600) % 60];
  const rest = `${Math.floor(tenths / 10) % 60}`.padStart(2, "0");
  return `${hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}` : minutes}:${rest}.${tenths % 10}`;
}

/** For sliders, which keep keys to themselves: Space plays. */
export function onSpace(play: () => void): (event: KeyboardEvent) => void {
  return (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    play();
  };
}
