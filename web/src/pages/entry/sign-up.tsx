import { useEffect, useState } from "react";
import { post } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { askWhoIAm, useSession } from "@/api/session";
import { Link } from "@/router";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { ProblemNote } from "@/ui/states";
import { EntryFrame, onSubmit, useWayBack } from "./frame";

export default function SignUp() {
  const session = useSession();
  const goBack = useWayBack();
  const [problem, setProblem] = useState<Problem | null>(null);
  const [mismatch, setMismatch] = useState("");
  const [isBusy, setBusy] = useState(false);
  // The first account of a server takes the code of the link that it printed.
  const [code] = useState(() => location.hash.slice(1));
  const auth = session.state === "known" ? session.auth : null;
  const isIn = auth?.signed_in ?? false;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when one is in
  useEffect(() => {
    if (isIn) goBack();
  }, [isIn]);

  useEffect(() => history.replaceState(null, "", location.pathname + location.search), []);

  const signUp = async (fields: FormData) => {
    if (fields.get("password") !== fields.get("again")) {
      setMismatch("The two are not the same");
      return;
    }
    setMismatch("");
    setBusy(true);
    setProblem(null);
    try {
      await post("/auth/sign-up", {
        name: fields.get("name"),
        password: fields.get("password"),
        code: fields.get("code") ?? "",
      });
      await askWhoIAm();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };

  const toSignIn = (
    <Link href="/sign-in" className="text-accent underline underline-offset-2">
      Sign in
    </Link>
  );
  if (auth && !auth.signup) {
    return (
      <EntryFrame
        title="Nobody can sign up here"
        about="Ask the administrator of this server for an account."
      >
        {toSignIn}
      </EntryFrame>
    );
  }
  return (
    <EntryFrame title="Sign up" about={<>Have an account? {toSignIn}</>}>
      <form onSubmit={onSubmit(signUp)} className="flex flex-col gap-4">
        {problem && <ProblemNote problem={problem} />}
        {auth?.needs_code && !code ? (
          <Field
            label="Code"
            name="code"
            autoComplete="off"
            about="The first account takes the end of the link that the server printed, after the #"
            required
            maxLength={128}
          />
        ) : (
          <input type="hidden" name="code" value={code} />
        )}
        <Field label="Name" name="name" autoComplete="username" autoFocus required maxLength={64} />
        <Field
          label="Password"
          name="password"
          type="password"
          autoComplete="new-password"
          about="A long one that you use nowhere else"
          required
          maxLength={1024}
        />
        <Field
          label="Password again"
          name="again"
          type="password"
          autoComplete="new-password"
          fault={mismatch}
          required
          maxLength={1024}
        />
        <Button type="submit" look="primary" isBusy={isBusy}>
          Sign up
        </Button>
      </form>
    </EntryFrame>
  );
}
