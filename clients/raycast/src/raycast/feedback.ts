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
import { type Failure, failureOf, type Remedy } from "../player/failure";
import { start } from "../player/start";
import { confirms, player } from "./preferences";

/** How long a command without a view stays there for the action of its message. */
const ACTION_MS = 6000;
/** How much later than a player that does not answer an engine is told that does not. */
const LATER_MS = 100;

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
    await tell(failureOf(error));
    return undefined;
  }
}

/**
 * Shows what went wrong, with the action that helps.
 *
 * Returns when that was carried out, or nobody wanted it: a command without a view is unloaded when
 * it returns, and its action with it.
 */
async function tell({ message, help, remedy }: Failure): Promise<void> {
  const toast: Toast.Options = { style: Toast.Style.Failure, title: message, message: help };
  if (!remedy) {
    await showToast(toast);
    return;
  }
  await new Promise<void>((over, failed) => {
    const unwanted = setTimeout(over, ACTION_MS);
    const onAction = (shown: Toast) => {
      clearTimeout(unwanted);
      void shown
        .hide()
        .then(() => act(remedy))
        .then(over, failed);
    };
    showToast({ ...toast, primaryAction: { title: actionTitle(remedy), onAction } }).catch(failed);
  });
}

export function actionTitle(remedy: Remedy): string {
  return {
    start: "Start Kokoro Live",
    restart: "Restart Kokoro Live",
    preferences: "Open Preferences",
  }[remedy];
}

/** Does what helps, and tells how it went; never throws. */
export async function act(remedy: Remedy): Promise<void> {
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
function notice(
  title: string,
  afterMs = PATIENCE.quickMs + LATER_MS,
): { over: () => Promise<void> } {
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
