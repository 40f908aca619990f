/** The voices, as lists show them. */

import type { Voice } from "../player/messages";
import { player } from "./preferences";

/** Asks for them. Not a closure: it is to be the same function at every rendering. */
export async function loadVoices(): Promise<Voice[]> {
  return await player().voices();
}

/** Voices of one language. */
export interface Section {
  language: string;
  voices: Voice[];
}

/** In the order in which the engine lists them. */
export function byLanguage(voices: Voice[]): Section[] {
  const sections = new Map<string, Voice[]>();
  for (const voice of voices) {
    sections.set(voice.lang, [...(sections.get(voice.lang) ?? []), voice]);
  }
  return [...sections].map(([lang, voices]) => ({ language: languageName(lang), voices }));
}

/** The name alone: lists show by themselves what is in brackets behind it. */
export function shortName({ name }: Voice): string {
  return name.replace(/ \(.*\)$/, "");
}

function languageName(tag: string): string {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(tag) ?? tag;
  } catch {
    return tag;
  }
}
