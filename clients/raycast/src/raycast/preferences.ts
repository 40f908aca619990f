/** The preferences, as what the rest of the extension wants to know. */

import { getPreferenceValues } from "@raycast/api";
import type { Markdown, Mode } from "../player/messages";
import { type Manner, Player } from "../player/player";

/** The player that the preferences lead to. */
export function player(): Player {
  const { address, dataFolder, token } = getPreferenceValues<Preferences>();
  return new Player({ address, dataFolder, token });
}

/** How a text is spoken. */
export function manner(): Manner {
  const { whenBusy, voice, speed, markdown } = getPreferenceValues<Preferences>();
  return {
    mode: (whenBusy || "replace") as Mode,
    voice: voice?.trim() || undefined,
    speed: speed ? Number(speed) : undefined,
    markdown: (markdown || undefined) as Markdown | undefined,
  };
}

/** By how much `Speak Faster` changes the speed. */
export function speedStep(): number {
  return Number(getPreferenceValues<Preferences>().speedStep) || 0.1;
}

/** Whether what succeeded is told. */
export function confirms(): boolean {
  return getPreferenceValues<Preferences>().confirm;
}

/** Whether the clipboard stands in for a selection. */
export function fallsBack(): boolean {
  return getPreferenceValues<Preferences>().clipboardFallback;
}
