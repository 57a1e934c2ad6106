/**
 * Parses NPY files, without a copy.
 *
 *     \x93NUMPY · u8 major · u8 minor · u16 (u32 from 2.0 on) length · header · elements
 *     header   a Python dict in text: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 */

export interface NdArray {
  shape: number[];
  /** NumPy's name of the elements: "f4", "u1", "b1". */
  dtype: string;
  values: ArrayLike<number>;
}

type Elements = new (buffer: ArrayBuffer, offset: number, length: number) => ArrayLike<number>;

const ELEMENTS: Record<string, { nbytes: number; type: Elements }> = {
  f8: { nbytes: 8, type: Float64Array },
  f4: { nbytes: 4, type: Float32Array },
  i4: { nbytes: 4, type: Int32Array },
  u4: { nbytes: 4, type: Uint32Array },
  i2: { nbytes: 2, type: Int16Array },
  u2: { nbytes: 2, type: Uint16Array },
  i1: { nbytes: 1, type: Int8Array },
  u1: { nbytes: 1, type: Uint8Array },
  b1: { nbytes: 1, type: Uint8Array },
};

export function parseNpy(buffer: ArrayBuffer): NdArray {
  const view = new DataView(buffer);
  const magic = String.fromCharCode(...new Uint8Array(buffer, 0, Math.min(6, buffer.byteLength)));
  if (magic !== "\u0093NUMPY") throw new Error("not an NPY file");
  const [start, length] = view.getUint8(6) === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const header = new TextDecoder().decode(new Uint8Array(buffer, start, length));
  const descr = /'descr':\s*'([<|=>])(\w+)'/.exec(header);
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header);
  if (descr === null || shape === null || descr[1] === ">" || /'fortran_order':\s*True/.test(header)) {
    throw new Error(`unsupported NPY header: ${header.trim()}`);
  }
  const lengths = (shape[1] ?? "").split(",").flatMap((part) => (part.trim() === "" ? [] : [Number(part)]));
  const count = lengths.reduce((product, one) => product * one, 1);
  return { shape: lengths, dtype: descr[2] ?? "", values: readElements(buffer, start + length, descr[2] ?? "", count) };
}

function readElements(buffer: ArrayBuffer, offset: number, dtype: string, count: number): ArrayLike<number> {
  if (dtype === "i8" || dtype === "u8") {
    const whole = dtype === "i8" ? new BigInt64Array(buffer, offset, count) : new BigUint64Array(buffer, offset, count);
    return Float64Array.from(whole, Number); // for display: 53 bits are enough
  }
  if (dtype === "f2") return Float32Array.from(new Uint16Array(buffer, offset, count), halfToNumber);
  const elements = ELEMENTS[dtype];
  if (elements === undefined) throw new Error(`unsupported dtype ${dtype}`);
  return new elements.type(buffer, offset, count);
}

/** IEEE 754 binary16. */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * 2 ** -14 * (fraction / 1024);
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : Number.NaN;
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}
