import { type InputHTMLAttributes, type ReactNode, useId } from "react";

/** A named input with what it is for, and what is wrong with it, beneath. */
export function Field({
  label,
  about,
  fault,
  ...rest
}: Omit<InputHTMLAttributes<HTMLInputElement>, "about"> & {
  label: string;
  about?: ReactNode;
  fault?: string;
}) {
  const id = useId();
  const note = fault || about;
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="font-medium text-sm">
        {label}
      </label>
      <input
        id={id}
        className="field text-sm"
        aria-invalid={fault ? true : undefined}
        aria-describedby={note ? `${id}-note` : undefined}
        {...rest}
      />
      {note && (
        <div id={`${id}-note`} className={`text-xs ${fault ? "text-bad" : "text-muted"}`}>
          {note}
        </div>
      )}
    </div>
  );
}

/** On or off, at once. */
export function Switch({
  label,
  about,
  isOn,
  onChange,
  isDisabled = false,
}: {
  label: string;
  about?: ReactNode;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
  isDisabled?: boolean;
}) {
  const id = useId();
  return (
    <div className="flex items-start gap-3">
      <button
        id={id}
        type="button"
        role="switch"
        aria-checked={isOn}
        aria-label={label}
        disabled={isDisabled}
        onClick={() => onChange(!isOn)}
        className={`mt-0.5 h-5 w-9 shrink-0 rounded-full border transition-colors disabled:opacity-50 ${isOn ? "border-accent bg-accent" : "border-line-strong bg-sunken"}`}
      >
        <span
          className={`block size-3.5 rounded-full transition-transform ${isOn ? "translate-x-[1.15rem] bg-on-accent" : "translate-x-0.5 bg-muted"}`}
        />
      </button>
      <label htmlFor={id} className="text-sm">
        {label}
        {about && <span className="block text-muted text-xs">{about}</span>}
      </label>
    </div>
  );
}
