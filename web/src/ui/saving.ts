/** Files that the page itself hands to the user. */

export function save(name: string, contents: Blob): void {
  const address = URL.createObjectURL(contents);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

export function saveJson(name: string, value: unknown): void {
  save(name, new Blob([`${JSON.stringify(value, null, 2)}\n`], { type: "application/json" }));
}
