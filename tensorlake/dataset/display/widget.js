/** The viewer in a frame of a notebook, and its selection; the messages are those of viewer/src/app/notebook.ts. */
function render({ model, el }) {
  const address = new URL(model.get("address"));
  if (location.hostname === "localhost") address.hostname = "localhost"; // the cookie is sent within one site only
  const widget = model.get("key");
  const frame = document.createElement("iframe");
  frame.title = "tensorlake viewer";
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 0`;
  const link = document.createElement("a");
  [link.href, link.target, link.textContent] = [address.href, "_blank", "the viewer in a tab"];

  const send = (body) => frame.contentWindow?.postMessage({ widget, ...body }, address.origin);
  const select = () => send({ kind: "select", ...model.get("_wanted") });
  function receive({ source, origin, data }) {
    if (source !== frame.contentWindow || origin !== address.origin || data?.widget !== widget) return;
    model.set("_page", { version: data.version, rows: data.rows });
    model.save_changes();
  }

  addEventListener("message", receive);
  model.on("change:_wanted", select);
  frame.addEventListener("load", () => send({ kind: "hello" }));
  frame.src = `${address.href}&widget=${widget}`;
  el.append(frame, link);
  return () => {
    removeEventListener("message", receive);
    model.off("change:_wanted", select);
  };
}

export default { render };
