/** Damaged images: a browser shows a part of them without a word; the server decodes all or none. */
import { ApiError, isConnectionLost, type TensorInfo } from "../../api/client";
import type { Shown, Viewer } from "../../state/viewer.svelte";
import { sampleUrlOf } from "./urls";

const PROBE_SIDE = 16; // the server's least

/** Why the server cannot decode the image that is shown; "" where it can, or is not reached. Created in a component. */
export class Damage {
  text = $state("");

  /** `shown` returns null for NULL. */
  constructor(viewer: Viewer, shown: () => { tensor: TensorInfo; shown: Shown } | null) {
    $effect(() => {
      const now = shown();
      const abort = new AbortController();
      this.text = "";
      if (now !== null)
        void findDamage(viewer, now.tensor, now.shown, abort.signal).then((found) => {
          if (!abort.signal.aborted) this.text = found;
        });
      return () => abort.abort();
    });
  }
}

async function findDamage(viewer: Viewer, tensor: TensorInfo, shown: Shown, signal: AbortSignal): Promise<string> {
  try {
    await viewer.api.sample(sampleUrlOf(viewer, tensor, shown, { size: PROBE_SIDE }), signal);
    return "";
  } catch (error) {
    if (signal.aborted || isConnectionLost(error)) return "";
    if (!(error instanceof ApiError)) throw error;
    return error.message;
  }
}
