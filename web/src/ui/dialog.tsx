import * as Radix from "@radix-ui/react-dialog";
import { type ReactNode, useState } from "react";
import { asProblem, type Problem } from "@/api/problem";
import { Button, IconButton, type Look } from "./button";
import { ProblemNote } from "./states";

interface Props {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  about?: string;
  children?: ReactNode;
  footer?: ReactNode;
  isWide?: boolean;
}

export function Dialog({ isOpen, onClose, title, about, children, footer, isWide = false }: Props) {
  return (
    <Radix.Root open={isOpen} onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="animate-fade fixed inset-0 z-40 bg-black/45" />
        <Radix.Content
          className={`animate-rise fixed inset-x-3 top-[8vh] z-40 mx-auto flex max-h-[84vh] flex-col rounded-xl border bg-raised shadow-pop ${isWide ? "max-w-5xl" : "max-w-lg"}`}
          {...(about ? {} : { "aria-describedby": undefined })}
        >
          <header className="px-5 pt-4 pb-2">
            <div className="min-w-0 pr-9">
              <Radix.Title className="font-semibold text-base">{title}</Radix.Title>
              {about && (
                <Radix.Description className="mt-1 text-muted text-sm">{about}</Radix.Description>
              )}
            </div>
          </header>
          <div className="min-h-0 flex-1 overflow-auto px-5 pb-4">{children}</div>
          {footer && (
            <footer className="flex flex-wrap justify-end gap-2 border-t px-5 py-3">
              {footer}
            </footer>
          )}
          {/* Last, so that what the dialog is for has the focus first. */}
          <IconButton
            label="Close"
            icon="close"
            onClick={onClose}
            className="absolute top-3 right-3"
          />
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface Question {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  about: string;
  act: string;
  look?: Look;
  onAct: () => Promise<void> | void;
}

/** For what cannot be undone. It stays open and says why when the act fails. */
export function Confirm({ isOpen, onClose, title, about, act, look = "danger", onAct }: Question) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const go = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await onAct();
      onClose();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      isOpen={isOpen}
      onClose={onClose}
      title={title}
      about={about}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look={look} isBusy={isBusy} onClick={go}>
            {act}
          </Button>
        </>
      }
    >
      {problem && <ProblemNote problem={problem} />}
    </Dialog>
  );
}
