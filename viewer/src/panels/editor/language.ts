/**
 * TQL for the editor: tokens for highlighting, names for completion.
 *
 * Only keywords are known here, from keywords.json (a test compares them with the grammar); the server's parser
 * checks queries.
 */
import {
  insertCompletionText,
  type Completion,
  type CompletionContext,
  type CompletionResult,
  type CompletionSource,
} from "@codemirror/autocomplete";
import type { EditorView } from "@codemirror/view";
import { StreamLanguage, type StringStream } from "@codemirror/language";
import type { Offer, TensorInfo } from "../../api/client";
import words from "../../query/keywords.json";
import { quoteName, quoteText } from "../../query/literals";
import { findOpenQuote } from "../../query/quotes";

const PATIENCE_MS = 1500;
const DETAIL = 60;
const KEYWORDS = new Set(words.keywords);
const CONSTANTS = new Set(words.constants);
/** Keywords that are functions before a bracket. */
const CALLED_KEYWORDS = new Set(["CAST", "FIRST", "LAST"]);

/** The kind of the next token; null for space and punctuation. */
export function nextToken(stream: StringStream): string | null {
  if (stream.eatSpace()) return null;
  if (stream.match(/^--.*/)) return "comment";
  if (stream.match(/^\/\*.*?(\*\/|$)/)) return "comment";
  if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
  if (stream.match(/^"(?:[^"]|"")*"?/)) return "variableName";
  if (stream.match(/^(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/)) return "number";
  if (stream.match(/^\$\w+/)) return "atom";
  const word = stream.match(/^[A-Za-z_]\w*/) as RegExpMatchArray | null;
  if (word !== null) return wordKind(word[0], stream);
  stream.next();
  return null;
}

function wordKind(word: string, stream: StringStream): string {
  const upper = word.toUpperCase();
  if (CONSTANTS.has(upper)) return "atom";
  const isCall = stream.match(/^\s*\(/, false) !== null;
  if (isCall && (!KEYWORDS.has(upper) || CALLED_KEYWORDS.has(upper))) return "variableName.function";
  return KEYWORDS.has(upper) ? "keyword" : "variableName";
}

export const tqlLanguage = StreamLanguage.define({
  name: "tql",
  token: nextToken,
  languageData: { commentTokens: { line: "--" }, closeBrackets: { brackets: ["(", "[", "'", '"'] } },
});

/**
 * Completions from the server's parser; local ones if it does not respond in time.
 *
 * CodeMirror aborts requests that further typing made obsolete.
 */
export function completeByServer(ask: (text: string, cursor: number, signal: AbortSignal) => Promise<Offer[]>, local: CompletionSource) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const text = context.state.doc.toString();
    const from = findOpenQuote(text.slice(0, context.pos)) ?? context.matchBefore(/\w+/)?.from;
    if (from === undefined && !context.explicit) return null;
    const abort = new AbortController();
    context.addEventListener("abort", () => abort.abort());
    const signal = AbortSignal.any([abort.signal, AbortSignal.timeout(PATIENCE_MS)]);
    try {
      const offers = await ask(text, context.pos, signal);
      return { from: from ?? context.pos, options: offers.map(asOption), validFor: /^(?:\w*|'[^']*|"[^"]*)$/ };
    } catch {
      return abort.signal.aborted ? null : local(context); // fall back to local names
    }
  };
}

function asOption({ text, kind, detail }: Offer): Completion {
  const types = { tensor: "variable", class: "text", function: "function", keyword: "keyword" };
  return { label: text, apply: applyOffer, type: types[kind], detail: detail.length > DETAIL ? `${detail.slice(0, DETAIL)}…` : detail };
}

/** Inserts a completion, replacing a closing quote that the editor added. */
function applyOffer(view: EditorView, offer: Completion, from: number, to: number): void {
  const next = view.state.sliceDoc(to, to + 1);
  const isClosed = (next === "'" || next === '"') && offer.label.endsWith(next);
  view.dispatch(insertCompletionText(view.state, offer.label, from, isClosed ? to + 1 : to));
}

/** Tensor names, keywords, and after `=` or inside quotes the class names. */
export function completeTql(tensors: () => TensorInfo[]) {
  return (context: CompletionContext): CompletionResult | null => {
    const quoted = context.matchBefore(/'[^']*/);
    if (quoted !== null) {
      const names = new Set(tensors().flatMap((tensor) => tensor.names ?? []));
      const options = [...names].map((name) => ({ label: quoteText(name), apply: applyOffer, type: "text" }));
      return { from: quoted.from, options, validFor: /^'[^']*'?$/ };
    }
    const word = context.matchBefore(/"?[A-Za-z_]\w*/);
    if (word === null && !context.explicit) return null;
    const options = [
      ...tensors().map((tensor) => ({ label: quoteName(tensor.name), apply: applyOffer, detail: tensor.type, type: "variable", boost: 2 })),
      ...words.keywords.map((label) => ({ label, type: "keyword" })),
    ];
    return { from: word?.from ?? context.pos, options, validFor: /^"?\w*$/ };
  };
}
