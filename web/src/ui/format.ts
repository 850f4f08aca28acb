/** Sizes, times and sums as people read them. */

export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]|[^\S ]/gu;

/** What cannot be seen, or turns the direction of writing, as a number: a text reads as what it is, and as nothing else. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (letter) =>
    letter === "\n" || letter === "\t"
      ? letter
      : `\\u{${(letter.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

export function duration(seconds: number): string {
  if (seconds < 0.0995) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function usd(amount: number): string {
  if (amount === 0) return "$0";
  if (amount < 0.0001) return "< $0.0001";
  return `$${amount.toFixed(amount < 0.1 ? 4 : 2)}`;
}

export function count(number: number): string {
  if (number < 1000) return String(number);
  if (number < 999_500) return `${(number / 1000).toFixed(number < 10_000 ? 1 : 0)}k`;
  return `${(number / 1_000_000).toFixed(1)}M`;
}

/** Seconds since 1970, as the API tells them. */
export function ago(at: number, now = Date.now() / 1000): string {
  const seconds = Math.max(0, now - at);
  if (seconds < 45) return "just now";
  if (seconds < 3570) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 84_600) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 6.5 * 86_400) return `${Math.round(seconds / 86_400)} d ago`;
  return new Date(at * 1000).toLocaleDateString();
}

export function moment(at: number): string {
  return new Date(at * 1000).toLocaleString();
}
