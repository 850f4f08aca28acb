import { useEffect, useState } from "react";
import { API, post } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { askWhoIAm, useSession } from "@/api/session";
import { Link } from "@/router";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { ProblemNote, Waiting } from "@/ui/states";
import { EntryFrame, onSubmit, useWayBack } from "./frame";

export default function SignIn() {
  const session = useSession();
  const goBack = useWayBack();
  const auth = session.state === "known" ? session.auth : null;
  const isIn = auth?.signed_in ?? false;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when one is in
  useEffect(() => {
    if (isIn) goBack();
  }, [isIn]);
  if (!auth || isIn) return <Waiting />;
  return auth.mode === "accounts" ? <WithPassword /> : <WithLink />;
}

function WithPassword() {
  const session = useSession();
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setBusy] = useState(false);
  const auth = session.state === "known" ? session.auth : null;

  const signIn = async (fields: FormData) => {
    setBusy(true);
    setProblem(null);
    try {
      await post("/auth/sign-in", { name: fields.get("name"), password: fields.get("password") });
      await askWhoIAm();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };

  return (
    <EntryFrame
      title="Sign in"
      about={
        auth?.signup && (
          <>
            New here?{" "}
            <Link href="/sign-up" className="text-accent underline underline-offset-2">
              Sign up
            </Link>
          </>
        )
      }
    >
      <form onSubmit={onSubmit(signIn)} className="flex flex-col gap-4">
        {problem && <ProblemNote problem={problem} />}
        <Field label="Name" name="name" autoComplete="username" autoFocus required maxLength={64} />
        <Field
          label="Password"
          name="password"
          type="password"
          autoComplete="current-password"
          required
          maxLength={1024}
        />
        <Button type="submit" look="primary" isBusy={isBusy}>
          Sign in
        </Button>
      </form>
      {auth?.oidc.map((provider) => (
        <a
          key={provider.id}
          href={`${API}/auth/oidc/${encodeURIComponent(provider.id)}/begin`}
          className="rounded-md border border-line-strong px-3 py-2 text-center font-medium text-sm hover:bg-hover"
        >
          Go on with {provider.label}
        </a>
      ))}
    </EntryFrame>
  );
}

function WithLink() {
  return (
    <EntryFrame
      title="Open the link from your terminal"
      about="This server is yours alone, so there is no password. It prints a link that signs this browser in, once."
    >
      <ol className="flex list-decimal flex-col gap-2 pl-5 text-sm">
        <li>
          Go to the terminal where <code className="font-mono">crucible serve</code> runs.
        </li>
        <li>
          Open the address it printed; it ends in <code className="font-mono">/enter#…</code>
        </li>
      </ol>
      <p className="text-muted text-xs">
        A link is good for one browser. <code className="font-mono">crucible link</code> prints a
        new one.
      </p>
      <Button icon="retry" onClick={askWhoIAm}>
        I have opened it
      </Button>
    </EntryFrame>
  );
}
