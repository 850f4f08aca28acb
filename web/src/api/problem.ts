/** What the server says when it says no: a problem document with a code that does not change, and what to do. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  readonly requestId: string;

  constructor(told: {
    status: number;
    code: string;
    message: string;
    hint?: string;
    requestId?: string;
  }) {
    super(told.message);
    this.name = "Problem";
    this.status = told.status;
    this.code = told.code;
    this.hint = told.hint ?? "";
    this.requestId = told.requestId ?? "";
  }
}

export async function problemOf(response: Response): Promise<Problem> {
  const requestId = response.headers.get("x-request-id") ?? "";
  try {
    return problemFrom(await response.json(), response.status, requestId);
  } catch {
    return new Problem({
      status: response.status,
      code: "unreadable",
      message: `The server answered with status ${response.status}`,
      requestId,
    });
  }
}

/** From a problem document, or from the data of an `error` event. */
export function problemFrom(told: unknown, status = 0, requestId = ""): Problem {
  const fields = typeof told === "object" && told !== null ? (told as Record<string, unknown>) : {};
  const text = (name: string) => (typeof fields[name] === "string" ? (fields[name] as string) : "");
  return new Problem({
    status: typeof fields.status === "number" ? fields.status : status,
    code: text("code") || "unknown",
    message: text("message") || text("detail") || text("title") || "The server refused the request",
    hint: text("hint"),
    requestId: text("request_id") || requestId,
  });
}

/** Any failure as one that can be shown. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof TypeError) {
    return new Problem({
      status: 0,
      code: "unreachable",
      message: "The server cannot be reached",
      hint: "See whether `crucible serve` still runs, then try again",
    });
  }
  const message = error instanceof Error ? error.message : String(error);
  return new Problem({ status: 0, code: "page-failed", message });
}

export function wasAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
