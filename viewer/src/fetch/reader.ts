/**
 * Reads thumbnails: splits the framed response into images and decodes each as it arrives.
 *
 * Independent of threads: runs in the worker (worker.ts) and in tests.
 */
import type { Api } from "../api/client";
import { FrameParser, type Frame } from "./frames";

export interface Thumbnail {
  /** null where the row has no value, or `error` says why there is no image. */
  bitmap: ImageBitmap | null;
  width: number;
  height: number;
  error: string | null;
}

export interface ThumbnailSource {
  dataset: string;
  version: string;
  /** Only for images computed by a query: rows are then positions in its result. */
  view: string | null;
  tensor: string;
  size: number;
  /** Of deep images: "low,high"; null for each image's own. */
  window: string | null;
}

export type ThumbnailRequest = ThumbnailSource & { rows: number[] };

/** Reads many thumbnails; `onThumbnail` is called with each and its index in `rows`. */
export type ReadThumbnails = (
  request: ThumbnailRequest,
  signal: AbortSignal,
  onThumbnail: (index: number, thumbnail: Thumbnail) => void,
) => Promise<void>;

export function readFrom(api: Api, decode: (frame: Frame) => Promise<ImageBitmap | null> = decodeFrame): ReadThumbnails {
  return async ({ dataset, ...body }, signal, onThumbnail) => {
    const answer = await api.thumbnails(dataset, body, signal);
    const parser = new FrameParser();
    const reader = answer.body?.getReader();
    const decoding: Promise<void>[] = [];
    const finish = async (frame: Frame) => onThumbnail(frame.index, await thumbnailOf(frame, decode));
    for (;;) {
      const piece = await reader?.read();
      if (piece?.value === undefined) break;
      for (const frame of parser.push(piece.value)) decoding.push(finish(frame));
    }
    parser.finish();
    await Promise.all(decoding);
  };
}

async function thumbnailOf(frame: Frame, decode: (frame: Frame) => Promise<ImageBitmap | null>): Promise<Thumbnail> {
  const { width, height } = frame;
  if (frame.kind === "error") return { bitmap: null, width, height, error: new TextDecoder().decode(frame.bytes) };
  return { bitmap: await decode(frame), width, height, error: null };
}

async function decodeFrame(frame: Frame): Promise<ImageBitmap | null> {
  if (frame.kind === "none") return null;
  return decodeImage(new Blob([frame.bytes], { type: frame.kind }));
}

/** Decodes without colour management: the pixels of a mask are codes. */
export function decodeImage(blob: Blob): Promise<ImageBitmap> {
  return createImageBitmap(blob, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
}
