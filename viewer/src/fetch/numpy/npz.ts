/**
 * Parses NPZ files as np.savez writes them: a ZIP archive of NPY files that are stored, not compressed.
 *
 *     PK\3\4 · … · u32 nbytes · u16 length of the name · u16 of the extra field · name · extra · NPY file
 *     an nbytes of 0xffffffff is in the extra field: u16 1 · u16 size · u64 nbytes
 */
import { parseNpy, type NdArray } from "./npy";

const LOCAL_HEADER = 0x04034b50;
const HEADER_NBYTES = 30;
const IN_EXTRA = 0xffffffff;

export function parseNpz(buffer: ArrayBuffer): Map<string, NdArray> {
  const view = new DataView(buffer);
  const arrays = new Map<string, NdArray>();
  for (let at = 0; at + HEADER_NBYTES <= buffer.byteLength && view.getUint32(at, true) === LOCAL_HEADER; ) {
    if (view.getUint16(at + 8, true) !== 0) throw new Error("unsupported NPZ file: its arrays are compressed");
    const extra = at + HEADER_NBYTES + view.getUint16(at + 26, true);
    const start = extra + view.getUint16(at + 28, true);
    const short = view.getUint32(at + 18, true);
    const nbytes = short === IN_EXTRA ? Number(view.getBigUint64(extra + 4, true)) : short;
    const name = new TextDecoder().decode(new Uint8Array(buffer, at + HEADER_NBYTES, extra - at - HEADER_NBYTES));
    arrays.set(name.replace(/\.npy$/, ""), parseNpy(buffer.slice(start, start + nbytes))); // a copy, so that elements are aligned
    at = start + nbytes;
  }
  return arrays;
}
