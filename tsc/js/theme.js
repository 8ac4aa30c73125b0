// @ts-check
/** Light or dark: as the system has it, or as the user chose. */
import { byId } from "./dom.js";

const KEY = "pps-playground-theme";

export function startTheme() {
  const chooser = /** @type {HTMLSelectElement} */ (byId("theme"));
  const set = (/** @type {string} */ theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  chooser.value = read();
  set(chooser.value);
  chooser.addEventListener("change", () => {
    set(chooser.value);
    try {
      localStorage.setItem(KEY, chooser.value);
    } catch {
      // Without storage the choice lasts until the page is closed.
    }
  });
}

function read() {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : "";
  } catch {
    return "";
  }
}
