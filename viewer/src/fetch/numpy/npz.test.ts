import { expect, test } from "vitest";
import { parseNpz } from "./npz";

// np.savez(out, rows=np.array([3, 70000], "u4"), said=np.frombuffer(b"{}", "u1")), and np.savez_compressed of the first
const STORED = "UEsDBC0AAAAAAAAAIQDAPUZC//////////8IABQAcm93cy5ucHkBABAAiAAAAAAAAACIAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzx1NCcsICdmb3J0cmFuX29yZGVyJzogRmFsc2UsICdzaGFwZSc6ICgyLCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAKAwAAAHARAQBQSwMELQAAAAAAAAAhALP/D0r//////////wgAFABzYWlkLm5weQEAEACCAAAAAAAAAIIAAAAAAAAAk05VTVBZAQB2AHsnZGVzY3InOiAnfHUxJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAp7fVBLAQItAy0AAAAAAAAAIQDAPUZCiAAAAIgAAAAIAAAAAAAAAAAAAACAAQAAAAByb3dzLm5weVBLAQItAy0AAAAAAAAAIQCz/w9KggAAAIIAAAAIAAAAAAAAAAAAAACAAcIAAABzYWlkLm5weVBLBQYAAAAAAgACAGwAAAB+AQAAAAA=";
const COMPRESSED = "UEsDBC0AAAAIAAAAIQDAPUZC//////////8IABQAcm93cy5ucHkBABAAiAAAAAAAAABMAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG5TaqKuo6Cell9UUpSYF59flJIKEndLzClOBYoXZyQWpAL5GkY6mjoKtQoUAC5mBgaGAkFGBgBQSwECLQMtAAAACAAAACEAwD1GQkwAAACIAAAACAAAAAAAAAAAAAAAgAEAAAAAcm93cy5ucHlQSwUGAAAAAAEAAQA2AAAAhgAAAAAA";

function bufferOf(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).buffer;
}

test("arrays are read by their names", () => {
  const arrays = parseNpz(bufferOf(STORED));

  expect([...arrays.keys()]).toEqual(["rows", "said"]);
  expect(Array.from(arrays.get("rows")?.values ?? [])).toEqual([3, 70000]);
});

test("a compressed archive is refused, and of another file nothing is read", () => {
  expect(() => parseNpz(bufferOf(COMPRESSED))).toThrow("compressed");
  expect(parseNpz(bufferOf("AAAA")).size).toBe(0);
});
