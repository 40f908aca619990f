/** The text that is to be spoken, and what is told about it. */

import { Clipboard, getSelectedText } from "@raycast/api";
import { Failure } from "../player/failure";
import { countOfCharacters, type Manner, type Spoken } from "../player/player";
import { fallsBack, manner, player } from "./preferences";

/** Has the selection spoken, or what stands in for it; gives what to tell. */
export async function speakSelection(): Promise<string> {
  const selected = await selection();
  if (selected) return told(await player().speak(selected, manner()));
  if (!fallsBack()) {
    throw new Failure(
      "Nothing is selected.",
      "Select a text; if there is one, Raycast needs the permission Accessibility to see it.",
    );
  }
  const copied = await clipboard();
  if (!copied) {
    throw new Failure(
      "Nothing is selected, and the clipboard holds no text.",
      "Select or copy a text and try again.",
    );
  }
  return `Nothing selected, so the clipboard: ${told(await player().speak(copied, manner()))}`;
}

/** Has the clipboard spoken; gives what to tell. */
export async function speakClipboard(): Promise<string> {
  const copied = await clipboard();
  if (!copied) {
    throw new Failure("The clipboard holds no text.", "Copy a text and try again.");
  }
  return told(await player().speak(copied, manner()));
}

/** Has a text spoken that was typed; gives what to tell. */
export async function speakTyped(text: string, wanted: Partial<Manner> = {}): Promise<string> {
  if (!text.trim()) throw new Failure("There is no text to speak.", "Type one.");
  return told(await player().speak(text, { ...manner(), ...wanted }));
}

/** Rejects where nothing is selected, and where the app does not say what is. */
async function selection(): Promise<string> {
  try {
    return (await getSelectedText()).trim();
  } catch {
    return "";
  }
}

async function clipboard(): Promise<string> {
  return (await Clipboard.readText())?.trim() ?? "";
}

function told({ outcome, characters, unheard }: Spoken): string {
  if (outcome === "stopped") return "Stopped";
  const what = countOfCharacters(characters);
  if (unheard) return `${what} wait: there is no sound device`;
  return outcome === "queued" ? `Queued ${what}` : `Speaking ${what}`;
}
