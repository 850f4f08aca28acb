import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";
import { Icon, type IconName, Spinner } from "./icons";
import { Tip } from "./tip";

export type Look = "primary" | "plain" | "quiet" | "danger";

const LOOKS: Record<Look, string> = {
  primary: "bg-accent text-on-accent hover:bg-accent-strong border-transparent",
  plain: "bg-surface text-ink border-line-strong hover:bg-hover",
  quiet: "text-muted border-transparent hover:bg-hover hover:text-ink",
  danger: "bg-surface text-bad border-line-strong hover:bg-bad-soft hover:border-bad",
};

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  size?: "s" | "m";
  icon?: IconName;
  isBusy?: boolean;
  ref?: Ref<HTMLButtonElement>;
  children?: ReactNode;
}

export function Button({
  look = "plain",
  size = "m",
  icon,
  isBusy = false,
  className = "",
  children,
  disabled,
  ...rest
}: Props) {
  const room = size === "s" ? "h-7 px-2 text-xs gap-1.5" : "h-9 px-3 text-sm gap-2";
  return (
    <button
      type="button"
      disabled={disabled || isBusy}
      aria-busy={isBusy || undefined}
      className={`inline-flex items-center justify-center whitespace-nowrap rounded-md border font-medium transition-colors select-none disabled:cursor-default disabled:opacity-50 ${room} ${LOOKS[look]} ${className}`}
      {...rest}
    >
      {isBusy ? <Spinner /> : icon ? <Icon name={icon} /> : null}
      {children}
    </button>
  );
}

/** Only a picture: its name is for screen readers, and shown to who points at it. */
export function IconButton({
  label,
  icon,
  look = "quiet",
  size = "s",
  className = "",
  isBusy = false,
  isRound = false,
  disabled,
  ...rest
}: Omit<Props, "children" | "icon"> & { label: string; icon: IconName; isRound?: boolean }) {
  return (
    <Tip text={label}>
      <button
        type="button"
        aria-label={label}
        disabled={disabled || isBusy}
        className={`inline-flex shrink-0 items-center justify-center border transition-colors disabled:cursor-default disabled:opacity-40 ${isRound ? "rounded-full" : "rounded-md"} ${size === "s" ? "size-7" : "size-9"} ${LOOKS[look]} ${className}`}
        {...rest}
      >
        {isBusy ? <Spinner /> : <Icon name={icon} />}
      </button>
    </Tip>
  );
}
