/** The classes whose names contain the words, best matches first: those that begin with the text. */
export function findClasses(names: readonly string[], text: string): number[] {
  const sought = text.trim().toLowerCase();
  const found = names.flatMap((name, code) => (name.toLowerCase().includes(sought) ? [code] : []));
  return found.sort((a, b) => Number(names[b]?.toLowerCase().startsWith(sought)) - Number(names[a]?.toLowerCase().startsWith(sought)) || a - b);
}
