/** The one way to the API: JSON in and out, the CSRF header where it is due, refusals as `Problem`. */

import { Problem, problemOf } from "./problem";

export const API = "/api/v1";

type Query = Record<string, string | number | boolean | null | undefined | string[]>;

export interface Ask {
  query?: Query;
  body?: unknown;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
}

let csrf = "";
let whenSignedOut: () => void = () => {};

export function setCsrf(token: string | null): void {
  csrf = token ?? "";
}

export function onSignedOut(act: () => void): void {
  whenSignedOut = act;
}

export const get = <T>(path: string, ask: Ask = {}) => json<T>("GET", path, ask);
export const post = <T = unknown>(path: string, body?: unknown, ask: Ask = {}) =>
  json<T>("POST", path, { ...ask, body: body ?? {} });
export const put = <T = unknown>(path: string, body?: unknown, ask: Ask = {}) =>
  json<T>("PUT", path, { ...ask, body: body ?? {} });
export const patch = <T = unknown>(path: string, body?: unknown, ask: Ask = {}) =>
  json<T>("PATCH", path, { ...ask, body: body ?? {} });
export const remove = <T = unknown>(path: string, ask: Ask = {}) => json<T>("DELETE", path, ask);

/** The answer itself, of a path beneath `/api/v1`. Throws `Problem`. */
export async function send(method: string, path: string, ask: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...ask.headers };
  const init: RequestInit = { method, headers, credentials: "same-origin" };
  if (ask.signal) init.signal = ask.signal;
  if (method !== "GET" && method !== "HEAD") Object.assign(headers, unsafeHeaders());
  if (ask.body instanceof FormData || ask.body instanceof Blob || typeof ask.body === "string") {
    init.body = ask.body;
  } else if (ask.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(ask.body);
  }
  const response = await fetch(address(path, ask.query), init);
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401 && !path.startsWith("/auth")) whenSignedOut();
  throw problem;
}

export function address(path: string, query: Query = {}): string {
  const wanted = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) wanted.append(name, String(one));
  }
  const text = wanted.toString();
  return `${API}${path}${text ? `?${text}` : ""}`;
}

export interface Uploaded {
  id: string;
  name: string;
  size: number;
  media_type: string;
}

/** With progress, which `fetch` does not tell of. */
export function upload(
  file: File,
  told: (share: number) => void,
  signal: AbortSignal,
): Promise<Uploaded> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address("/upload"));
    request.responseType = "text";
    for (const [name, value] of Object.entries(unsafeHeaders())) {
      request.setRequestHeader(name, value);
    }
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) told(event.loaded / event.total);
    };
    request.onerror = () => reject(new TypeError("The upload was cut off"));
    request.onabort = () => reject(new DOMException("Stopped", "AbortError"));
    request.onload = async () => {
      const response = new Response(request.responseText || null, {
        status: Math.max(200, request.status),
      });
      if (request.status >= 200 && request.status < 300)
        resolve((await response.json()) as Uploaded);
      else reject(await problemOf(response));
    };
    signal.addEventListener("abort", () => request.abort(), { once: true });
    const form = new FormData();
    form.append("file", file, file.name);
    request.send(form);
  });
}

export function unsafeHeaders(): Record<string, string> {
  return csrf ? { "X-Crucible-CSRF": csrf } : {};
}

async function json<T>(method: string, path: string, ask: Ask): Promise<T> {
  const response = await send(method, path, ask);
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  if (!text) return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Problem({
      status: response.status,
      code: "unreadable",
      message: "The server's answer cannot be read",
      hint: "Reload the page: it may be older than the server",
    });
  }
}
