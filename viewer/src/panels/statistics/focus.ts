/**
 * The keyboard's place in a panel that changes under it.
 *
 * A filter makes bars, classes and conditions go away, often the one that was pressed. What had the focus leaves
 * none behind, and the next Tab would begin at the top of the page: instead the nearest part that stayed gets it.
 */

const NEXT = "button:not(:disabled, [tabindex='-1'], [role=switch])";

/** Watches a panel; for what the keyboard alone has focused, a pointer has a place of its own. */
export function keepFocus(panel: HTMLElement): () => void {
  let focused: Element | null = null;
  let around: Element[] = []; // from near to far

  function onfocusin({ target }: FocusEvent) {
    focused = target instanceof Element && target.matches(":focus-visible") ? target : null;
    around = [];
    for (let one = focused?.parentElement ?? null; one !== null && panel.contains(one); one = one.parentElement) around.push(one);
  }

  /** Browsers say it too of what they remove: that is told by its being gone a moment later. */
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
