// The list of voices, by their languages.

import { languageName } from "./text.js";

/** @typedef {import("./protocol.js").Message} Message */

/**
 * The name of a voice without what the list says beside it: language and gender.
 * @param {Message} voice
 */
export function shortName(voice) {
  return String(voice.name).replace(/ \(.*\)$/, "");
}

export class VoiceList {
  #select;
  /** @type {Message[]} */
  #voices = [];

  /** @param {HTMLSelectElement} select that lists them */
  constructor(select) {
    this.#select = select;
  }

  /** The voice that is chosen, as the engine tells of it. */
  get chosen() {
    return this.#voices.find((one) => one.id === this.#select.value);
  }

  /**
   * Lists them; the chosen one stays chosen.
   * @param {Message[]} voices
   * @param {string | null} wanted voice that is chosen at first
   * @returns {boolean} false: they are those of before
   */
  show(voices, wanted) {
    if (voices === this.#voices) return false;
    const known = JSON.stringify(voices) === JSON.stringify(this.#voices);
    this.#voices = voices;
    if (known) return false;
    const chosen = this.#select.value || wanted || "af_heart";
    const groups = Map.groupBy(voices, (one) => String(one.lang));
    this.#select.replaceChildren(
      ...[...groups].map(([lang, ones]) => {
        const group = document.createElement("optgroup");
        group.label = languageName(lang);
        group.append(...ones.map((one) => option(one, one.id === chosen)));
        return group;
      }),
    );
    return true;
  }
}

/**
 * @param {Message} voice
 * @param {boolean} chosen
 */
function option(voice, chosen) {
  const about = [shortName(voice), voice.gender, voice.grade].filter(Boolean).join(" · ");
  return new Option(about, voice.id, false, chosen);
}
