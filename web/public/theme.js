// Before the first paint, so that no page flashes in the other colours.
try {
  const theme = localStorage.getItem("crucible-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {}
