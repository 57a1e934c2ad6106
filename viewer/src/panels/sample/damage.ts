/** Damaged images: a browser shows a part of them without a word; the server decodes all or none. */
import { ApiError, isConnectionLost, type TensorInfo } from "../../api/client";
import type { Shown, Viewer } from "../../state/viewer.svelte";
import { sampleUrlOf } from "./urls";

const PROBE_SIDE = 16; // the server's least

/** Why the server cannot decode an image; "" where it can, or is not reached. */
export async function findDamage(viewer: Viewer, tensor: TensorInfo, shown: Shown, signal: AbortSignal): Promise<string> {
  try {
    await viewer.api.sample(sampleUrlOf(viewer, tensor, shown, { size: PROBE_SIDE }), signal);
    return "";
  } catch (error) {
    if (signal.aborted || isConnectionLost(error)) return "";
    if (!(error instanceof ApiError)) throw error;
    return error.message;
  }
}
