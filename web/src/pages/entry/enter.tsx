import { useEffect, useRef, useState } from "react";
import { post } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { askWhoIAm } from "@/api/session";
import { navigate } from "@/router";
import { Button } from "@/ui/button";
import { ProblemNote, Waiting } from "@/ui/states";
import { EntryFrame } from "./frame";

/** Trades the one-time code after the `#`, which no server log ever sees, for a cookie. */
export default function Enter() {
  const [problem, setProblem] = useState<Problem | null>(null);
  const hasBegun = useRef(false);
  useEffect(() => {
    // A code is good once; an effect may run twice.
    if (hasBegun.current) return;
    hasBegun.current = true;
    const code = location.hash.slice(1);
    history.replaceState(null, "", "/enter");
    post("/auth/link", { code })
      .then(askWhoIAm)
      .then(() => navigate("/", "replace"))
      .catch((error: unknown) => setProblem(asProblem(error)));
  }, []);
  if (!problem) return <Waiting text="Signing this browser in" />;
  return (
    <EntryFrame title="This link does not work" about="Each link signs one browser in, once.">
      <ProblemNote problem={problem} />
      <Button onClick={() => navigate("/", "replace")}>Go on</Button>
    </EntryFrame>
  );
}
