/**
 * The query field: a plain textarea at first, replaced by CodeMirror once loaded.
 *
 * CodeMirror is two thirds of the viewer's script and not needed before the first rows: it is loaded when the
 * page is idle, or when the field gets the focus. Text, selection and focus are carried over. If it cannot be
 * loaded, the plain field stays and queries run from there.
 */
import type { Editor, EditorOptions, Selection } from "./codemirror";

/** An editor that can be upgraded. */
export interface Field extends Editor {
  /** Starts to load CodeMirror, once. */
  improve(): void;
}

export function createField(parent: HTMLElement, options: EditorOptions): Field {
  const plain = createPlain(parent, options, improve);
  let shown: Editor = plain;
  let marked: [start: number | null, stop: number | null] = [null, null];
  let isAsked = false;
  let isGone = false;

  function improve() {
    if (isAsked) return;
    isAsked = true;
    void import("./codemirror").then(({ createEditor }) => plain.afterComposition(() => replace(createEditor)), leave);
  }

  function replace(createEditor: (parent: HTMLElement, options: EditorOptions) => Editor) {
    if (isGone) return;
    const { isWriting, hasFocus, selection } = plain.state();
    const better = createEditor(parent, { ...options, text: plain.text() });
    better.mark(...marked);
    if (hasFocus) better.focus(selection, isWriting);
    plain.destroy();
    shown = better;
  }

  /** The server is offline, or serves another version of the viewer: the next focus tries again. */
  function leave() {
    isAsked = false;
  }

  return {
    text: () => shown.text(),
    setText: (text) => shown.setText(text),
    mark(start, stop) {
      marked = [start, stop];
      shown.mark(start, stop);
    },
    focus: (selection) => shown.focus(selection),
    destroy() {
      isGone = true;
      shown.destroy();
    },
    improve,
  };
}

interface Plain extends Editor {
  state(): { isWriting: boolean; hasFocus: boolean; selection: Selection };
  /** Acts now, or at the end of the current composition (IME). */
  afterComposition(act: () => void): void;
}

function createPlain(parent: HTMLElement, options: EditorOptions, onfocus: () => void): Plain {
  const area = document.createElement("textarea");
  area.value = options.text;
  area.placeholder = options.example;
  area.spellcheck = false;
  area.setAttribute("aria-label", "TQL query");
  let isWriting = false;
  let isComposing = false;
  let later: (() => void) | null = null;
  const fit = () => (area.rows = area.value.split("\n").length);
  area.addEventListener("focus", onfocus);
  area.addEventListener("compositionstart", () => (isComposing = true));
  area.addEventListener("compositionend", () => {
    isComposing = false;
    later?.();
  });
  area.addEventListener("input", () => {
    isWriting = true;
    fit();
    options.onedit(area.value);
  });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !isComposing) {
      isWriting = false; // no completions after a run, so that Esc leaves the field
      options.onrun(area.value);
    } else if (event.key === "Escape") {
      area.blur();
      options.onleave();
    } else return;
    event.preventDefault();
  });
  fit();
  parent.append(area);
  return {
    text: () => area.value,
    setText(text) {
      if (area.value === text) return;
      area.value = text;
      fit();
    },
    mark() {}, // the error is shown below the field
    focus: () => area.focus(),
    destroy: () => area.remove(),
    state: () => ({
      isWriting,
      hasFocus: document.activeElement === area,
      selection: { anchor: area.selectionStart, head: area.selectionEnd },
    }),
    afterComposition(act) {
      if (isComposing) later = act;
      else act();
    },
  };
}
