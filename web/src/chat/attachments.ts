/** Files on their way into the next turn: each with its progress, taken back at any moment. */

import { useCallback, useRef, useState } from "react";
import { remove, upload } from "@/api/client";
import { asProblem, wasAborted } from "@/api/problem";

export interface Attachment {
  key: number;
  name: string;
  size: number;
  share: number;
  /** The server's name for it, once all of it is there. */
  id: string;
  fault: string;
}

export interface Attaching {
  files: Attachment[];
  isUploading: boolean;
  add: (files: Iterable<File>) => void;
  drop: (key: number) => void;
  /** They belong to a turn now. */
  clear: () => void;
}

/** Those that are there, by the server's names. */
export function idsOf({ files }: Attaching): string[] {
  return files.map((one) => one.id).filter(Boolean);
}

let lastKey = 0;

export function useAttachments(): Attaching {
  const [files, setFiles] = useState<Attachment[]>([]);
  const stops = useRef(new Map<number, AbortController>());

  const change = useCallback((key: number, changes: Partial<Attachment>) => {
    setFiles((old) => old.map((one) => (one.key === key ? { ...one, ...changes } : one)));
  }, []);

  const add = useCallback(
    (given: Iterable<File>) => {
      for (const file of given) {
        lastKey += 1;
        const key = lastKey;
        const stop = new AbortController();
        stops.current.set(key, stop);
        setFiles((old) => [
          ...old,
          { key, name: file.name, size: file.size, share: 0, id: "", fault: "" },
        ]);
        upload(file, (share) => change(key, { share }), stop.signal)
          .then((told) => change(key, { id: told.id, name: told.name, share: 1 }))
          .catch((error: unknown) => {
            if (!wasAborted(error)) change(key, { fault: asProblem(error).message });
          })
          .finally(() => stops.current.delete(key));
      }
    },
    [change],
  );

  const drop = useCallback((key: number) => {
    stops.current.get(key)?.abort();
    setFiles((old) => {
      const gone = old.find((one) => one.key === key);
      if (gone?.id) remove(`/upload/${gone.id}`).catch(() => {});
      return old.filter((one) => one.key !== key);
    });
  }, []);

  const clear = useCallback(() => setFiles([]), []);
  return { files, isUploading: files.some((one) => !one.id && !one.fault), add, drop, clear };
}
