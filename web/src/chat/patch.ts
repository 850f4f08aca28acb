export interface FilePatch {
  /** As `git apply` takes it. */
  whole: string;
  /** From its first hunk on, to be read. */
  hunks: string;
}

/** A patch by its files, by the name that each has after the change. */
export function splitPatch(patch: string): Map<string, FilePatch> {
  const found = new Map<string, FilePatch>();
  for (const whole of patch.split(/^(?=diff --git )/m)) {
    const name =
      /^\+\+\+ b\/(.+)$/m.exec(whole)?.[1] ??
      /^--- a\/(.+)$/m.exec(whole)?.[1] ??
      /^diff --git a\/(.+) b\/\1$/m.exec(whole)?.[1];
    if (!name) continue;
    const begin = whole.search(/^@@ /m);
    const hunks = begin < 0 ? "" : whole.slice(begin).trimEnd();
    found.set(name.replace(/\t.*$/, ""), { whole, hunks });
  }
  return found;
}
