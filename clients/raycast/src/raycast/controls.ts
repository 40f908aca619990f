/** The controls, as commands and menu items have them: each gives what to tell. */

import { getPreferenceValues } from "@raycast/api";
import { MAX_SPEED, MIN_SPEED } from "../player/player";
import { manner, player, speedStep } from "./preferences";

const NOTHING = "Nothing is spoken";

export async function pauseOrResume(): Promise<string> {
  const { state } = await player().toggle();
  if (state === "idle") return NOTHING;
  return state === "paused" ? "Paused" : "Going on";
}

export async function stop(): Promise<string> {
  return (await player().stop()) ? "Stopped" : NOTHING;
}

/** By what the preference of the command says. */
export async function skipForward(): Promise<string> {
  const { unit } = getPreferenceValues<Preferences.SkipForward>();
  return await (unit === "item" ? nextText() : nextSentence());
}

export async function nextSentence(): Promise<string> {
  return (await player().skip(1)) ? "Next sentence" : NOTHING;
}

export async function nextText(): Promise<string> {
  return (await player().skip(1, "item")) ? "Next text" : NOTHING;
}

export async function skipBack(): Promise<string> {
  return (await player().skip(-1)) ? "Back" : NOTHING;
}

export async function repeatLast(): Promise<string> {
  await player().repeat();
  return "Once more";
}

export async function faster(): Promise<string> {
  return toldSpeed(await player().faster(speedStep()));
}

export async function slower(): Promise<string> {
  return toldSpeed(await player().faster(-speedStep()));
}

export async function takeVoice(id: string, name: string): Promise<string> {
  await player().useVoice(id);
  const own = manner().voice;
  return own && own !== id
    ? `${name} speaks; texts from Raycast keep ${own} of the preferences`
    : `${name} speaks`;
}

function toldSpeed(speed: number): string {
  const limit = speed === MAX_SPEED ? ", the fastest" : speed === MIN_SPEED ? ", the slowest" : "";
  const own = manner().speed;
  return own && own !== speed
    ? `Speed ${speed}${limit}; texts from Raycast keep ${own} of the preferences`
    : `Speed ${speed}${limit}`;
}
