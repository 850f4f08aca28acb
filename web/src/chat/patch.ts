/** A patch by its files: from each one's first hunk on, by the name it has after the change. */
export function splitPatch(patch: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of patch.split(/^(?=diff --git )/m)) {
    const name =
      /^\+\+\+ b\/(.+)$/m.exec(part)?.[1] ??
      /^--- a\/(.+)$/m.exec(part)?.[1] ??
      /^diff --git a\/(.+) b\/\1$/m.exec(part)?.[1];
    if (!name) continue;
    const hunks = part.search(/^@@ /m);
    found.set(name.replace(/\t.*$/, ""), hunks < 0 ? "" : part.slice(hunks).trimEnd());
  }
  return found;
}
