/** A modal dialog that is open while `isOpen()` is true: for `{@attach modal(…)}`. Esc or a click outside closes it. */
import type { Attachment } from "svelte/attachments";

export function modal(isOpen: () => boolean, onclose: () => void): Attachment<HTMLDialogElement> {
  return (dialog) => {
    const onclick = (event: MouseEvent) => event.target === dialog && dialog.close(); // its content covers it, so this is outside
    dialog.addEventListener("close", onclose);
    dialog.addEventListener("click", onclick);
    $effect(() => {
      if (isOpen() && !dialog.open) dialog.showModal();
      if (!isOpen() && dialog.open) dialog.close();
    });
    return () => {
      dialog.removeEventListener("close", onclose);
      dialog.removeEventListener("click", onclick);
    };
  };
}
