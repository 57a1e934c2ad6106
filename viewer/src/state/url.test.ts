import { expect, test } from "vitest";
import { placeAt, findRoot, readPlace, takeToken, writePlace, type Place } from "./url";

const root = new URL("http://127.0.0.1:8300/");
const place: Place = {
  dataset: "vision/my~pets",
  flow: null,
  at: "main@12",
  tql: "WHERE label = 'cat' AND x > 1",
  saved: null, selected: null,
  runs: ["first/a", "second"],
  metrics: ["train/loss", "acc"],
  step: null, rank: null,
  span: [1000, 2000],
  row: 160,
  first: 144,
  hidden: ["masks", "clip"],
  counted: ["boxes", "pose/score"],
  pair: ["label", "a:b,c"],
  off: [3],
  opacity: 0.8,
  zoom: 2,
  windows: { "left/rgb": "-160,240.5", "a:b": "1e-7,2" },
  frame: 12,
  layout: "table",
  vector: "vec",
  color: "",
  image: "left/rgb",
  look: true,
  side: true,
  edit: false,
  label: "label",
  compare: "v1.0",
  diff: "swipe",
  change: 7,
  only: "changed",
};

const defaults: Place = { dataset: null, flow: null, at: null, tql: "", saved: null, selected: null, runs: [], metrics: [], step: null, rank: null, span: null, row: null, first: null, hidden: [], counted: null, pair: null, off: [], opacity: 0.45, zoom: 1, windows: {}, image: null, frame: null, layout: null, vector: null, color: null, look: false, side: false, label: null, edit: false, compare: null, diff: null, change: 0, only: null };

test("every view is a link: what is written is read back", () => {
  expect(readPlace(writePlace(place, root), root)).toEqual(place);
});

test("what is at its default is left out of the address", () => {
  const plain = { ...defaults, dataset: place.dataset };

  expect(writePlace(plain, root).href).toBe("http://127.0.0.1:8300/vision~my~~pets");
});

test.each(["a/~b", "a~/b", "a//b", "a/!b", "a~!b", "a/~!/~/b"])("the dataset %j is read back from its link", (dataset) => {
  expect(readPlace(writePlace({ ...place, dataset }, root), root).dataset).toBe(dataset);
});

test("a page on which no statistics are chosen is another link than one that chooses itself", () => {
  expect(readPlace(writePlace({ ...place, counted: [] }, root), root).counted).toEqual([]);
  expect(readPlace(writePlace({ ...place, counted: null }, root), root).counted).toBeNull();
});

test("the page works behind a path prefix", () => {
  const page = new URL("https://host/lake/pets?row=3");

  expect(findRoot(page).href).toBe("https://host/lake/");
  expect(readPlace(page, findRoot(page))).toMatchObject({ dataset: "pets", row: 3 });
});

test("an address made by hand cannot break the page", () => {
  const odd = readPlace(new URL("http://127.0.0.1:8300/?row=-1&zoom=99&hide=,,&look=2&window=3&window=a:9,1&window=a:-,e&window=:1,2&steps=9-3&rank=1"), root);

  expect(odd).toEqual(defaults);
});

test("the token leaves the address", () => {
  const { token, clean } = takeToken(new URL("http://127.0.0.1:8300/pets?row=3#token=s3cret"));

  expect(token).toBe("s3cret");
  expect(clean.href).toBe("http://127.0.0.1:8300/pets?row=3");
});

test("a place is kept at a server of another port, with the token of its link", () => {
  const page = new URL("http://127.0.0.1:8300/proxy/pets?row=3&q=WHERE+x+%3E+1");
  const moved = placeAt(new URL("http://127.0.0.1:41234/#token=abc"), page, new URL("http://127.0.0.1:8300/proxy/"));

  expect(moved.href).toBe("http://127.0.0.1:41234/pets?row=3&q=WHERE+x+%3E+1#token=abc");
});

test("a link to edit a row opens its detail view, and keeps how the rows are shown", () => {
  const edited = { ...defaults, dataset: "pets", row: 3, look: true, edit: true, layout: "table" } as const;

  expect(readPlace(new URL("http://127.0.0.1:8300/pets?mode=edit&row=3"), root)).toMatchObject({ edit: true, look: true, layout: null });
  for (const place of [edited, { ...edited, look: false }]) expect(readPlace(writePlace(place, root), root)).toEqual(place);
});

test("a link to a step shows its batch, and keeps how the rows are shown", () => {
  const step = { ...defaults, dataset: "pets", runs: ["first/a"], step: 41_200 };

  expect(writePlace(step, root).search).toBe("?run=first%2Fa&step=41200&mode=step");
  for (const layout of [null, "table"] as const) expect(readPlace(writePlace({ ...step, layout }, root), root)).toEqual({ ...step, layout });
  expect(readPlace(writePlace({ ...step, rank: 2 }, root), root).rank).toBe(2);
  expect(readPlace(writePlace({ ...step, step: null, rank: 2 }, root), root).rank).toBeNull(); // of a step only
  expect(readPlace(new URL("http://127.0.0.1:8300/pets?mode=step&step=3"), root)).toEqual({ ...defaults, dataset: "pets" }); // of no run
  expect(readPlace(new URL("http://127.0.0.1:8300/pets?mode=step&run=a&step=-1"), root).step).toBeNull();
});

test("flows and jobs have an address in the place of a dataset, and so has each run", () => {
  for (const [flow, text] of [["", "?mode=flows"], ["4314b997-3443", "?flow=4314b997-3443&mode=flows"]] as const) {
    const url = writePlace({ ...defaults, flow }, root);
    expect(url.search).toBe(text);
    expect(readPlace(url, root)).toEqual({ ...defaults, flow });
  }
  expect(readPlace(new URL("pets?mode=flows&flow=x", root), root).flow).toBe(null);
});
