/**
 * Stands in for `@raycast/api`, which has no runtime outside Raycast: what a command shows is kept,
 * what it asks for is what `world` has.
 */

import { createElement, Fragment, type ReactNode } from "react";
import manifest from "../package.json";

/** Something that the user would see. */
export interface Shown {
  kind: "hud" | "toast" | "hidden" | "closed" | "preferences" | "launched";
  title?: string;
  message?: string;
  style?: string;
  action?: string;
}

interface ToastOptions {
  style?: string;
  title: string;
  message?: string;
  primaryAction?: { title: string; onAction: (toast: Toast) => void };
}

interface Preference {
  name: string;
  default?: unknown;
}

export const ALL_PREFERENCES: Preference[] = [
  ...manifest.preferences,
  ...manifest.commands.flatMap(
    (command) => (command as { preferences?: Preference[] }).preferences ?? [],
  ),
];

/** The defaults of the manifest, as Raycast gives them. */
function defaults(): Record<string, unknown> {
  return Object.fromEntries(ALL_PREFERENCES.map((one) => [one.name, one.default]));
}

class World {
  preferences = defaults();
  selection?: string;
  clipboard?: string;
  shown: Shown[] = [];
  /** Whether the menu bar command is enabled, and others. */
  enabled = true;
  /** The action of the message that was shown last. */
  action?: () => void;
  /** Told when there is an action, after which a command stays for a while. */
  onAction?: () => void;
}

export let world = new World();

/** A user with these preferences, selection and clipboard, to whom nothing was shown. */
export function renew(
  changes: Partial<Pick<World, "selection" | "clipboard" | "enabled">> & {
    preferences?: Record<string, unknown>;
  } = {},
): World {
  world = new World();
  Object.assign(world, { ...changes, preferences: { ...defaults(), ...changes.preferences } });
  return world;
}

// --- feedback -------------------------------------------------------------------------------

export class Toast {
  static Style = { Success: "success", Failure: "failure", Animated: "animated" } as const;

  constructor(private readonly options: ToastOptions) {}

  async hide() {
    world.shown.push({ kind: "hidden", title: this.options.title });
  }
}

export async function showToast(options: ToastOptions): Promise<Toast> {
  const { primaryAction, style, title, message } = options;
  const toast = new Toast(options);
  world.shown.push({ kind: "toast", style, title, message, action: primaryAction?.title });
  if (primaryAction) {
    world.action = () => primaryAction.onAction(toast);
    world.onAction?.();
  }
  return toast;
}

export async function showHUD(title: string) {
  world.shown.push({ kind: "hud", title });
}

export async function closeMainWindow() {
  world.shown.push({ kind: "closed" });
}

// --- the rest of the machine ----------------------------------------------------------------

export const LaunchType = { Background: "background", UserInitiated: "userInitiated" };

export async function launchCommand({ name }: { name: string }) {
  if (!world.enabled) throw new Error(`The command ${name} is not enabled`);
  world.shown.push({ kind: "launched", title: name });
}

export async function openExtensionPreferences() {
  world.shown.push({ kind: "preferences" });
}

export function getPreferenceValues() {
  return world.preferences;
}

export async function getSelectedText() {
  if (world.selection === undefined) {
    throw new Error("Unable to get selected text from frontmost application");
  }
  return world.selection;
}

export const Clipboard = { readText: async () => world.clipboard };

const names = new Proxy({}, { get: (_, name) => String(name) }) as Record<string, string>;
export const Icon = names;
export const Color = names;

// --- components: what is given to them is all there is to see ----------------------------------

function element(name: string, parts: Record<string, unknown> = {}) {
  const component = (props: { children?: ReactNode; actions?: ReactNode }) =>
    createElement(
      name,
      props as object,
      createElement(Fragment, {}, props.children, props.actions),
    );
  return Object.assign(component, parts);
}

export const ActionPanel = element("ActionPanel");
export const Action = element("Action", { SubmitForm: element("Action.SubmitForm") });
export const Form = element("Form", {
  TextArea: element("Form.TextArea"),
  Dropdown: element("Form.Dropdown", {
    Item: element("Form.Dropdown.Item"),
    Section: element("Form.Dropdown.Section"),
  }),
});
export const List = element("List", {
  EmptyView: element("List.EmptyView"),
  Item: element("List.Item"),
  Section: element("List.Section"),
});
export const MenuBarExtra = element("MenuBarExtra", {
  Item: element("MenuBarExtra.Item"),
  Section: element("MenuBarExtra.Section"),
});
