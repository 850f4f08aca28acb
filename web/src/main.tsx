import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { askWhoIAm } from "./api/session";
import { App } from "./app";
import "./styles.css";

void askWhoIAm();

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
