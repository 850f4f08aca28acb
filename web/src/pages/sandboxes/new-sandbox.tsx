import { type FormEvent, useState } from "react";
import { post } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { navigate } from "@/router";
import { Button } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { Field } from "@/ui/field";
import { ProblemNote } from "@/ui/states";
import type { Sandbox } from "./sandboxes";

export function NewSandbox({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const [name, setName] = useState("");
  const [image, setImage] = useState("base");
  const [memory, setMemory] = useState("512");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const make = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const made = await post<Sandbox>("/sandboxes", {
        ...(name.trim() ? { name: name.trim() } : {}),
        settings: { image: image.trim(), memory_mib: Number(memory) },
      });
      onClose();
      navigate(`/sandboxes/${encodeURIComponent(made.name)}`);
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
      title="New sandbox"
      about="It starts at once, without any network. What it may reach is set on its page."
    >
      <form onSubmit={make} className="flex flex-col gap-4 pt-1">
        <Field
          label="Name"
          placeholder="one is made up if it is empty"
          value={name}
          maxLength={63}
          onChange={(event) => setName(event.target.value)}
        />
        <Field
          label="Image"
          about="base, or the name of an image that is here or can be pulled"
          required
          value={image}
          maxLength={1024}
          onChange={(event) => setImage(event.target.value)}
        />
        <Field
          label="Memory in MiB"
          type="number"
          min={128}
          required
          value={memory}
          onChange={(event) => setMemory(event.target.value)}
        />
        {problem && <ProblemNote problem={problem} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" isBusy={isBusy}>
            Make it
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
