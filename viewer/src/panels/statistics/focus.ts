/**
 * Keyboard focus in a panel whose content changes.
 *
 * A filter removes bars, classes and conditions, often the focused one; the next Tab would start at the top of the
 * page. Instead, the nearest remaining control gets the focus.
 */

const NEXT = "button:not(:disabled, [tabindex='-1'], [role=switch])";

/** Keeps keyboard focus inside a panel; focus by pointer is not tracked. */
export function keepFocus(panel: HTMLElement): () => void {
  let focused: Element | null = null;
  let around: Element[] = []; // from near to far

  function onfocusin({ target }: FocusEvent) {
    focused = target instanceof Element && target.matches(":focus-visible") ? target : null;
    around = [];
    for (let one = focused?.parentElement ?? null; one !== null && panel.contains(one); one = one.parentElement) around.push(one);
  }

  /** Browsers also fire this for removed elements: those are disconnected a moment later. */
  function onfocusout({ target }: FocusEvent) {
    queueMicrotask(() => {
      if (target === focused && focused?.isConnected === true) focused = null;
    });
  }

  const observer = new MutationObserver(() => {
    if (focused === null || focused.isConnected || document.activeElement !== document.body) return;
    const next = around.filter((one) => one.isConnected).map((one) => one.querySelector<HTMLElement>(NEXT)).find((one) => one !== null);
    next?.focus();
  });
  observer.observe(panel, { childList: true, subtree: true });
  panel.addEventListener("focusin", onfocusin);
  panel.addEventListener("focusout", onfocusout);
  return () => {
    observer.disconnect();
    panel.removeEventListener("focusin", onfocusin);
    panel.removeEventListener("focusout", onfocusout);
  };
}
