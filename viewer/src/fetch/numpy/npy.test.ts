import { expect, test } from "vitest";
import { halfToNumber, parseNpy } from "./npy";

/** What np.save writes. */
function npy(descr: string, shape: string, elements: ArrayBuffer): ArrayBuffer {
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape}), }`;
  const header = text.padEnd(117) + "\n"; // 10 + 118 = 128
  const head = Uint8Array.of(0x93, ...new TextEncoder().encode("NUMPY"));
  const out = new Uint8Array(10 + header.length + elements.byteLength);
  out.set(head);
  out.set([1, 0, header.length, 0], 6);
  out.set(new TextEncoder().encode(header), 10);
  out.set(new Uint8Array(elements), 10 + header.length);
  return out.buffer;
}

test("an array is read as NumPy wrote it", () => {
  const array = parseNpy(npy("<f4", "2, 3", Float32Array.from([1, 2, 3, 4, 5, 6.5]).buffer));

  expect(array.shape).toEqual([2, 3]);
  expect([...(array.values as Float32Array)]).toEqual([1, 2, 3, 4, 5, 6.5]);
});

test("whole numbers of 64 bits and halves are numbers too", () => {
  expect([...(parseNpy(npy("<i8", "2,", BigInt64Array.from([-3n, 7n]).buffer)).values as Float64Array)]).toEqual([-3, 7]);
  expect([0x3c00, 0xc000, 0x3555, 0x0001].map(halfToNumber)).toEqual([1, -2, 0.333251953125, 2 ** -24]);
});

test("what NumPy did not write is refused with words", () => {
  expect(() => parseNpy(new ArrayBuffer(16))).toThrow("not an NPY file");
  expect(() => parseNpy(npy("<c8", "1,", new ArrayBuffer(8)))).toThrow("c8");
});
