import { mount } from "svelte";
import App from "./app/App.svelte";
import "@fontsource-variable/inter/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "./app/theme.css";

const target = document.getElementById("app");
if (target === null) throw new Error("index.html has no #app");

export default mount(App, { target });
