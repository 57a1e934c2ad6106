/** Python and TQL snippets that reproduce the current view. */

export interface Shown {
  url: string | null;
  name: string;
  version: string;
  tql: string;
  /** A saved view, by its name. */
  saved: string | null;
  position: number;
  /** Its number in the version; null for rows that a query computed. */
  row: number | null;
}

export function loadSnippet({ url, name, version, tql, saved, position }: Shown): string {
  const lines = [
    `ds = tl.open(${quote(url ?? name)},`,
    `             version=${quote(version)})`,
  ];
  if (saved !== null) return [...lines, `view = ds.views[${quote(saved)}]`, `row = view[${position}]`].join("\n");
  const query = tql.trim();
  if (query === "") return [...lines, `row = ds[${position}]`].join("\n");
  const text = query.includes("\n") ? `"""\n${query}\n"""` : quote(query);
  return [...lines, `view = ds.query(${text})`, `row = view[${position}]`].join("\n");
}

/** The query for this row; for a computed row, the query that computed it. */
export function rowQuery({ tql, row }: Shown): string {
  return row === null ? tql.trim() : `SELECT * WHERE ROW_NUMBER() = ${row}`;
}

/** Python that saves the current rows as a view, for read-only servers. */
export function saveSnippet(url: string, version: string, tql: string): string {
  return [`ds = tl.open(${quote(url)}, ${quote(version)})`, `ds.query(${quote(tql)}).save("a-name")`].join("\n");
}

/** A Python string literal; JSON's escapes are valid Python. */
function quote(text: string): string {
  return JSON.stringify(text);
}
