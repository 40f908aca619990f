/** All commands, by the names of the manifest, and what runs them as Raycast does. */

import { createElement, type FunctionComponent } from "react";
import { act, create, type ReactTestInstance, type ReactTestRenderer } from "react-test-renderer";
import ChooseVoice from "../src/choose-voice";
import Faster from "../src/faster";
import PauseResume from "../src/pause-resume";
import RepeatLast from "../src/repeat-last";
import SkipBack from "../src/skip-back";
import SkipForward from "../src/skip-forward";
import Slower from "../src/slower";
import SpeakClipboard from "../src/speak-clipboard";
import SpeakSelection from "../src/speak-selection";
import SpeakText from "../src/speak-text";
import SpeechStatus from "../src/speech-status";
import Stop from "../src/stop";
import { world } from "./raycast";

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

export const WITHOUT_VIEW: Record<string, () => Promise<void>> = {
  "speak-selection": SpeakSelection,
  "speak-clipboard": SpeakClipboard,
  "pause-resume": PauseResume,
  stop: Stop,
  "skip-forward": SkipForward,
  "skip-back": SkipBack,
  "repeat-last": RepeatLast,
  faster: Faster,
  slower: Slower,
};

export const WITH_VIEW: Record<string, FunctionComponent<Launch>> = {
  "speak-text": SpeakText as unknown as FunctionComponent<Launch>,
  "choose-voice": ChooseVoice,
  "speech-status": SpeechStatus,
};

export interface Launch {
  arguments: { text?: string };
  fallbackText?: string;
  draftValues?: Record<string, string>;
}

/**
 * Runs a command without a view, until it has told something that can be acted upon, for which it
 * stays a while; or else until it is over.
 */
export async function press(name: string, { toTheEnd = false } = {}): Promise<void> {
  const told = new Promise<void>((resolve) => (world.onAction = resolve));
  const over = WITHOUT_VIEW[name]!();
  await (toTheEnd ? over : Promise.race([over, told]));
}

/** A command with a view that is open. */
export class View {
  private constructor(private readonly renderer: ReactTestRenderer) {}

  /** Opens it; gives it when it has loaded what it shows. */
  static async open(name: string, launch: Partial<Launch> = {}): Promise<View> {
    const props = { arguments: {}, ...launch };
    let renderer: ReactTestRenderer;
    await act(async () => {
      renderer = create(createElement(WITH_VIEW[name]!, props));
    });
    const view = new View(renderer!);
    await view.loaded();
    return view;
  }

  /** The host elements that have a title, in order: title, and what else there is to read. */
  get lines(): string[] {
    return this.all((one) => typeof one.props.title === "string").map((one) =>
      [one.props.title, one.props.subtitle, one.props.description].filter(Boolean).join(" | "),
    );
  }

  /** The properties of the outermost element. */
  get root(): Record<string, unknown> {
    return this.all(() => true)[0]!.props;
  }

  /** Those of the first element with this title, or this id. */
  part(name: string): Record<string, unknown> {
    const found = this.all((one) => one.props.title === name || one.props.id === name)[0];
    if (!found) throw new Error(`There is no ${name} among: ${this.lines.join("; ")}`);
    return found.props;
  }

  /** Chooses an action by its title, in the list item of `within` if there are several. */
  async choose(title: string, { within, values }: { within?: string; values?: object } = {}) {
    const isHost = (one: ReactTestInstance, name: string) =>
      typeof one.type === "string" && one.props.title === name;
    const from = within ? this.all((one) => isHost(one, within))[0] : this.renderer.root;
    const found = from?.findAll((one) => isHost(one, title))[0];
    if (!found) throw new Error(`There is no ${title} among: ${this.lines.join("; ")}`);
    const { onAction, onSubmit } = found.props;
    await act(async () => {
      const told = new Promise<void>((resolve) => (world.onAction = resolve));
      await Promise.race([values ? onSubmit(values) : onAction(), told]);
    });
    await this.loaded();
  }

  async close() {
    await act(async () => this.renderer.unmount());
  }

  private all(which: (one: ReactTestInstance) => boolean): ReactTestInstance[] {
    return this.renderer.root.findAll((one) => typeof one.type === "string" && which(one));
  }

  private async loaded() {
    while (this.root.isLoading) await act(() => new Promise(setImmediate));
  }
}
