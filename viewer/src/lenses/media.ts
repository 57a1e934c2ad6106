/** Samples that are read in parts, and have players: audio, video, points and meshes. */
import { isSummary, type CellValue, type Summary, type TensorInfo } from "../api/client";
import { formatBytes, formatCount, formatPlural } from "../format";
import { readText } from "./text";
import type { Lens } from "./lens";

const KINDS = new Set(["audio", "video", "point_cloud", "mesh"]);

/** Whether samples have a picture that the server draws, such as a waveform, over which nothing of the data lies. */
export function isMedia(tensor: TensorInfo): boolean {
  return KINDS.has(tensor.kind);
}

/** Whether samples play already in the panel of their row. */
export function isPlayed(tensor: TensorInfo): boolean {
  return tensor.kind === "audio" || tensor.kind === "video";
}

function describe(value: CellValue | Summary, words: (shape: number[]) => string): string {
  if (!isSummary(value)) return readText(value);
  return [words(value.shape ?? []), (value.media_type ?? "").replace(/^\w+\//, ""), formatBytes(value.nbytes ?? 0)].filter((word) => word !== "").join(", ");
}

/** "point cloud". */
const brief = (tensor: TensorInfo) => tensor.kind.replaceAll("_", " ");

export const audioLens: Lens = {
  brief,
  describe: (value) => describe(value, ([frames = 0, channels = 1]) => `${formatPlural(frames, "sample")}${channels === 1 ? "" : ` × ${formatCount(channels)}`}`),
  view: () => import("../players/audio/AudioPlayer.svelte"),
};

export const videoLens: Lens = {
  brief,
  describe: (value) => describe(value, ([frames = 0, height = 0, width = 0]) => `${formatPlural(frames, "frame")}, ${width} × ${height}`),
  view: () => import("../players/video/VideoPlayer.svelte"),
};

export const cloudLens: Lens = {
  brief,
  describe: (value) => (isSummary(value) ? [formatPlural(value.shape?.[0] ?? 0, "point"), formatBytes(value.nbytes ?? 0)].join(", ") : readText(value)),
  view: () => import("../players/scene/ScenePlayer.svelte"),
};

export const meshLens: Lens = {
  brief,
  describe: (value) => describe(value, ([vertices = 0]) => `${formatCount(vertices)} vertices`),
  view: () => import("../players/scene/ScenePlayer.svelte"),
};
