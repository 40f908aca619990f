/** What is shown: a word when something was done, a sentence and a way out when it was not. */

import {
  closeMainWindow,
  launchCommand,
  LaunchType,
  openExtensionPreferences,
  showHUD,
  showToast,
  Toast,
} from "@raycast/api";
import { PATIENCE } from "../player/conversation";
import { type Failure, failureOf } from "../player/failure";
import { start } from "../player/start";
import { confirms, player } from "./preferences";

/** How long a command without a view stays there for the action of its message. */
const ACTION_MS = 6000;

/** Does a command and tells how it went; never throws. */
export async function run(command: () => Promise<string>): Promise<void> {
  const done = await attempt(command);
  if (done === undefined) return;
  await (confirms() ? showHUD(done) : closeMainWindow());
  await refreshStatus();
}

/**
 * Does a command and tells if it failed; gives what it gave, undefined if it failed. Never throws.
 *
 * What takes longer than a person waits for a key is told to be on its way.
 */
export async function attempt<T>(command: () => Promise<T>): Promise<T | undefined> {
  const waiting = notice("Waiting for the engine …");
  try {
    const done = await command();
    await waiting.over();
    return done;
  } catch (error) {
    await waiting.over();
    await stayFor(await show(failureOf(error)));
    return undefined;
  }
}

/**
 * Shows what went wrong, with the action that helps.
 *
 * Gives something to wait for: that the action was carried out. Undefined: there is none.
 */
export async function show(failure: Failure): Promise<{ acted: Promise<void> } | undefined> {
  const { message, help, remedy } = failure;
  const toast: Toast.Options = { style: Toast.Style.Failure, title: message, message: help };
  if (!remedy) {
    await showToast(toast);
    return undefined;
  }
  let done: () => void;
  const acted = new Promise<void>((resolve) => (done = resolve));
  await showToast({
    ...toast,
    primaryAction: {
      title: actionTitle(remedy),
      onAction: (shown) => void act(remedy, shown).finally(done),
    },
  });
  return { acted };
}

export function actionTitle(remedy: NonNullable<Failure["remedy"]>): string {
  return {
    start: "Start Kokoro Live",
    restart: "Restart Kokoro Live",
    preferences: "Open Preferences",
  }[remedy];
}

/** Does what helps; never throws. */
export async function act(remedy: NonNullable<Failure["remedy"]>, toast?: Toast): Promise<void> {
  await toast?.hide();
  if (remedy === "preferences") {
    await openExtensionPreferences();
    return;
  }
  const waiting = notice("Starting Kokoro Live …", 0);
  try {
    await start({ anew: remedy === "restart", player: player() });
    await waiting.over();
    await showToast({ style: Toast.Style.Success, title: "Kokoro Live runs. Try again." });
    await refreshStatus();
  } catch (error) {
    await waiting.over();
    const { message, help } = failureOf(error);
    await showToast({ style: Toast.Style.Failure, title: message, message: help });
  }
}

/** Has the menu bar look again; it may be switched off. */
export async function refreshStatus(): Promise<void> {
  try {
    await launchCommand({ name: "speech-status", type: LaunchType.Background });
  } catch {
    // not enabled, which is how it is installed
  }
}

/** A message that is shown while something takes its time. */
function notice(title: string, afterMs: number = PATIENCE.quickMs): { over: () => Promise<void> } {
  let shown: Promise<Toast> | undefined;
  const timer = setTimeout(() => {
    shown = showToast({ style: Toast.Style.Animated, title });
  }, afterMs);
  return {
    over: async () => {
      clearTimeout(timer);
      await (await shown)?.hide();
    },
  };
}

/** Without a view a command is unloaded when it returns, and its action with it. */
async function stayFor(action: { acted: Promise<void> } | undefined): Promise<void> {
  if (!action) return;
  let timer: NodeJS.Timeout | undefined;
  const enough = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ACTION_MS);
  });
  await Promise.race([action.acted, enough]);
  clearTimeout(timer);
}
