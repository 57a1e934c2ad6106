/** The CodeMirror editor of the query bar: TQL highlighting, completion, a mark under an error. field.ts loads it. */
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap, completionStatus, moveCompletionSelection, selectedCompletionIndex, startCompletion } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, drawSelection, EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Offer, TensorInfo } from "../../api/client";
import { completeByServer, completeTql, tqlLanguage } from "./language";

export interface Selection {
  anchor: number;
  head: number;
}

export interface Editor {
  text(): string;
  setText(text: string): void;
  /** Underlines [start, stop) of the text; nulls take the mark away. */
  mark(start: number | null, stop: number | null): void;
  /** Takes the focus; with `offers`, opens completions as if the last letters had been typed here. */
  focus(selection?: Selection, offers?: boolean): void;
  destroy(): void;
}

export interface EditorOptions {
  text: string;
  /** Shown while the editor is empty. */
  example: string;
  tensors: () => TensorInfo[];
  /** Completions at the cursor, from the server's parser. */
  complete: (text: string, cursor: number, signal: AbortSignal) => Promise<Offer[]>;
  /** The text was changed by hand. */
  onedit: (text: string) => void;
  onrun: (text: string) => void;
  onleave: () => void;
}

export function createEditor(parent: HTMLElement, options: EditorOptions): Editor {
  const view = new EditorView({ parent, state: EditorState.create({ doc: options.text, extensions: extend(options) }) });
  return {
    text: () => view.state.doc.toString(),
    setText(text) {
      if (view.state.doc.toString() === text) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    mark(start, stop) {
      view.dispatch({ effects: setMark.of(start === null ? null : clampMark(start, stop ?? start + 1, view.state.doc.length)) });
    },
    focus(selection, offers = false) {
      view.focus();
      if (selection !== undefined) view.dispatch({ selection });
      if (offers && /\w$/.test(view.state.sliceDoc(0, view.state.selection.main.head))) startCompletion(view);
    },
    destroy: () => view.destroy(),
  };
}

/** A mark of at least one letter inside the text; an error at its end marks the last letter. */
export function clampMark(start: number, stop: number, length: number): { from: number; to: number } | null {
  if (length === 0) return null;
  const from = Math.max(0, Math.min(start, length - 1));
  return { from, to: Math.max(from + 1, Math.min(stop, length)) };
}

const setMark = StateEffect.define<{ from: number; to: number } | null>();

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(current, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(setMark)) continue;
      const place = effect.value;
      return place === null ? Decoration.none : Decoration.set([errorMark.range(place.from, place.to)]);
    }
    return transaction.docChanged ? Decoration.none : current;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const errorMark = Decoration.mark({ class: "tql-error" });

const highlighting = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--keyword)" },
  { tag: tags.string, color: "var(--string)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: tags.atom, color: "var(--number)" },
  { tag: tags.function(tags.variableName), color: "var(--function)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
]);

const theme = EditorView.theme({
  "&": { fontSize: "13px", backgroundColor: "transparent", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", maxHeight: "160px" },
  ".cm-content": { minWidth: "0", padding: "5px 0", caretColor: "var(--text)" },
  ".cm-line": { padding: "0 12px" },
  ".cm-placeholder": { color: "var(--dim)", whiteSpace: "nowrap", maxWidth: "100%", overflow: "hidden", textOverflow: "ellipsis" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent) !important",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--raise)" },
  ".tql-error": { textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-tooltip": {
    marginTop: "8px",
    padding: "4px",
    border: "1px solid var(--line)",
    borderRadius: "8px",
    backgroundColor: "var(--panel)",
    boxShadow: "var(--shadow)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12px", maxHeight: "260px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": {
    display: "flex",
    justifyContent: "space-between",
    gap: "24px",
    padding: "4px 8px",
    borderRadius: "4px",
    color: "var(--text)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--raise)",
    color: "var(--text)",
  },
  ".cm-completionMatchedText": { textDecoration: "none", color: "var(--accent)" },
  ".cm-completionDetail": { color: "var(--dim)", fontStyle: "normal" },
});

/**
 * Tab takes the completion that is chosen, else the first; Enter takes only a chosen one, and runs the query otherwise.
 * Tab has no other meaning here, so that a fast one is no accident: without a delay, it does not leave the field.
 */
function acceptFirst(view: EditorView): boolean {
  if (completionStatus(view.state) !== "active") return false;
  if (selectedCompletionIndex(view.state) === null) moveCompletionSelection(true)(view);
  return acceptCompletion(view);
}

function extend(options: EditorOptions) {
  const run = (view: EditorView) => {
    closeCompletion(view); // including a pending one, so that Esc leaves the editor
    options.onrun(view.state.doc.toString());
    return true;
  };
  const leave = (view: EditorView) => {
    view.contentDOM.blur();
    options.onleave();
    return true;
  };
  return [
    keymap.of([{ key: "Mod-Enter", run }, { key: "Ctrl-Enter", run }, { key: "Tab", run: acceptFirst }, { key: "Enter", run }]), // Shift+Enter: another line
    history(),
    drawSelection(),
    bracketMatching(),
    closeBrackets(), // closes quotes, so that an unclosed one is an error
    tqlLanguage,
    syntaxHighlighting(highlighting),
    autocompletion({ selectOnOpen: false, interactionDelay: 0, override: [completeByServer(options.complete, completeTql(options.tensors))], icons: false }),
    EditorView.updateListener.of((update) => {
      const isByHand = update.transactions.some((one) => one.isUserEvent("input") || one.isUserEvent("delete"));
      if (update.docChanged && isByHand) options.onedit(update.state.doc.toString());
    }),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, { key: "Escape", run: leave }, ...historyKeymap, ...defaultKeymap]),
    placeholder(options.example),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": "TQL query", spellcheck: "false" }),
    marks,
    theme,
  ];
}
