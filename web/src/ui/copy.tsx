import { useEffect, useRef, useState } from "react";
import { IconButton } from "./button";
import { toastProblem } from "./toast";

export function CopyButton({
  text,
  label = "Copy",
  className = "",
}: {
  text: string | (() => string);
  label?: string;
  className?: string;
}) {
  const [isDone, setDone] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      setDone(true);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setDone(false), 1500);
    } catch (error) {
      toastProblem(error);
    }
  };
  return (
    <IconButton
      label={isDone ? "Copied" : label}
      icon={isDone ? "check" : "copy"}
      onClick={copy}
      className={className}
    />
  );
}
