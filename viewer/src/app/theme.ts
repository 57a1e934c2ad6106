/** Light or dark theme: the last choice in this browser, else the system's preference. */

export type Theme = "dark" | "light";

const KEY = "tensorlake-theme";

export function initialTheme(storage: Pick<Storage, "getItem">, prefersLight: boolean): Theme {
  const chosen = storage.getItem(KEY);
  if (chosen === "dark" || chosen === "light") return chosen;
  return prefersLight ? "light" : "dark";
}

export function applyTheme(theme: Theme, root: HTMLElement): void {
  root.dataset.theme = theme;
}

export function rememberTheme(theme: Theme, storage: Pick<Storage, "setItem">): void {
  storage.setItem(KEY, theme);
}
