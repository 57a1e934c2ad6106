/** A dialog that is open while `isOpen()` says so: for `{@attach modal(…)}`. Esc, and a press beside it, close it. */
import type { Attachment } from "svelte/attachments";

export function modal(isOpen: () => boolean, onclose: () => void): Attachment<HTMLDialogElement> {
  return (dialog) => {
    const onclick = (event: MouseEvent) => event.target === dialog && dialog.close(); // what is in it covers it
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
