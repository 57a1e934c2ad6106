/**
 * The framed response of `POST …/thumbnails`, parsed as it arrives.
 *
 *     body   = frame*
 *     frame  = u32 index in the request's `rows` · u8 kind · u8[3] zero
 *              · u32 width · u32 height of the whole sample · u32 nbytes · nbytes of image
 *     kind   = 0 no value · 1 JPEG · 2 PNG · 3 error (the bytes are a UTF-8 message)
 *
 * All integers are little-endian.
 */

export const HEADER_NBYTES = 20;

const KINDS = ["none", "image/jpeg", "image/png", "error"] as const;

export interface Frame {
  index: number;
  kind: (typeof KINDS)[number];
  /** The size of the full sample, the coordinates of overlays. */
  width: number;
  height: number;
  bytes: Uint8Array<ArrayBuffer>;
}

/** Splits a stream of arbitrary pieces into frames. */
export class FrameParser {
  #pending = new Uint8Array(0);

  /** Frames completed by `piece`, in order. */
  push(piece: Uint8Array): Frame[] {
    this.#pending = concat(this.#pending, piece);
    const frames: Frame[] = [];
    let start = 0;
    for (;;) {
      const frame = readFrame(this.#pending, start);
      if (frame === null) break;
      frames.push(frame);
      start += HEADER_NBYTES + frame.bytes.length;
    }
    this.#pending = this.#pending.slice(start);
    return frames;
  }

  /** Call at the end of the stream: an incomplete frame is an error. */
  finish(): void {
    if (this.#pending.length > 0) {
      throw new Error(`the thumbnail response ends inside a frame (${this.#pending.length} bytes left)`);
    }
  }
}

function readFrame(bytes: Uint8Array, start: number): Frame | null {
  if (bytes.length - start < HEADER_NBYTES) return null;
  const header = new DataView(bytes.buffer, bytes.byteOffset + start, HEADER_NBYTES);
  const nbytes = header.getUint32(16, true);
  const stop = start + HEADER_NBYTES + nbytes;
  if (bytes.length < stop) return null;
  const kind = KINDS[header.getUint8(4)];
  if (kind === undefined) throw new Error(`unknown thumbnail kind ${header.getUint8(4)}`);
  return {
    index: header.getUint32(0, true),
    kind,
    width: header.getUint32(8, true),
    height: header.getUint32(12, true),
    bytes: bytes.slice(start + HEADER_NBYTES, stop),
  };
}

function concat(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
