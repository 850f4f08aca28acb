import { useRef, useState } from "react";
import { send } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { Button } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { ProblemNote, Waiting } from "@/ui/states";
import type { Verdict } from "./runs";
import { VerdictNote } from "./verdict";

/** Checks an exported manifest, also of another day, against this server's key. */
export function VerifyFile() {
  const input = useRef<HTMLInputElement>(null);
  const [name, setName] = useState("");
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const check = async (file: File) => {
    setName(file.name);
    setVerdict(null);
    setProblem(null);
    try {
      const answer = await send("POST", "/runs/verify", {
        body: file,
        headers: { "Content-Type": "application/octet-stream" },
      });
      setVerdict((await answer.json()) as Verdict);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <>
      <input
        ref={input}
        type="file"
        aria-label="Manifest to verify"
        className="hidden"
        onChange={(event) => {
          const file = event.target.files?.[0];
          event.target.value = "";
          if (file) void check(file);
        }}
      />
      <Button icon="shield" onClick={() => input.current?.click()}>
        Verify a manifest
      </Button>
      <Dialog isOpen={name !== ""} onClose={() => setName("")} title={`Verify ${name}`}>
        {verdict && <VerdictNote verdict={verdict} />}
        {problem && <ProblemNote problem={problem} />}
        {!verdict && !problem && <Waiting text="Checking" />}
      </Dialog>
    </>
  );
}
