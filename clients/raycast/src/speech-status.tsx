import {
  getPreferenceValues,
  Icon,
  launchCommand,
  LaunchType,
  MenuBarExtra,
  openExtensionPreferences,
  showHUD,
} from "@raycast/api";
import { failureOf } from "./player/failure";
import type { State } from "./player/messages";
import { count, countOfCharacters, type Glance, isBusy } from "./player/player";
import { start } from "./player/start";
import * as controls from "./raycast/controls";
import { actionTitle } from "./raycast/feedback";
import { type Loaded, useLoaded } from "./raycast/loaded";
import { player } from "./raycast/preferences";

const LOOKS: Record<State["state"], { icon: Icon; title: string }> = {
  idle: { icon: Icon.Speaker, title: "Silent" },
  buffering: { icon: Icon.CircleProgress, title: "About to speak" },
  playing: { icon: Icon.SpeakerHigh, title: "Speaking" },
  paused: { icon: Icon.Pause, title: "Paused" },
  recovering: { icon: Icon.CircleProgress, title: "Waiting for the engine" },
};

async function load(): Promise<Glance> {
  return await player().glance();
}

export default function SpeechStatus() {
  const loaded = useLoaded(load);
  const { value, failure, isLoading } = loaded;
  if (failure) return <Failed {...loaded} />;
  const state = value?.state;
  const { icon, title } = LOOKS[state?.state ?? "idle"] ?? LOOKS.playing;
  const { showTitle } = getPreferenceValues<Preferences.SpeechStatus>();
  const busy = state !== undefined && isBusy(state);
  return (
    <MenuBarExtra
      isLoading={isLoading}
      icon={icon}
      title={showTitle && busy ? title : undefined}
      tooltip={`Kokoro Live: ${title.toLowerCase()}`}
    >
      {value && <Facts {...value} title={title} />}
      {busy && (
        <MenuBarExtra.Section>
          <Control
            title={state.state === "paused" ? "Resume" : "Pause"}
            icon={state.state === "paused" ? Icon.Play : Icon.Pause}
            control={controls.pauseOrResume}
            {...loaded}
          />
          <Control title="Stop" icon={Icon.Stop} control={controls.stop} {...loaded} />
          <Control
            title="Next Sentence"
            icon={Icon.Forward}
            control={controls.nextSentence}
            {...loaded}
          />
          <Control title="Back" icon={Icon.Rewind} control={controls.skipBack} {...loaded} />
          {state.queue_len > 0 && (
            <Control
              title="Next Text"
              icon={Icon.ArrowRight}
              control={controls.nextText}
              {...loaded}
            />
          )}
        </MenuBarExtra.Section>
      )}
      <MenuBarExtra.Section>
        <Control title="Repeat Last" icon={Icon.Repeat} control={controls.repeatLast} {...loaded} />
        <Control title="Faster" icon={Icon.Plus} control={controls.faster} {...loaded} />
        <Control title="Slower" icon={Icon.Minus} control={controls.slower} {...loaded} />
        <MenuBarExtra.Item title="Choose Voice…" icon={Icon.Person} onAction={chooseVoice} />
      </MenuBarExtra.Section>
      <MenuBarExtra.Section>
        <MenuBarExtra.Item
          title="Preferences…"
          icon={Icon.Gear}
          onAction={openExtensionPreferences}
        />
      </MenuBarExtra.Section>
    </MenuBarExtra>
  );
}

/** Lines that say what is so; they do nothing. */
function Facts({ state, queue, title }: Glance & { title: string }) {
  const current = queue.items.find((item) => !item.waits);
  const manner = [state.voice, state.speed && `speed ${state.speed}`].filter(Boolean).join(", ");
  return (
    <MenuBarExtra.Section>
      <MenuBarExtra.Item title={title} subtitle={current && countOfCharacters(current.chars)} />
      {state.queue_len > 0 && <MenuBarExtra.Item title={`${count(state.queue_len)} waiting`} />}
      {manner && <MenuBarExtra.Item title={manner} />}
      <MenuBarExtra.Item
        title={state.device ?? "No sound device: speech waits until there is one"}
      />
    </MenuBarExtra.Section>
  );
}

/**
 * A control as an item.
 *
 * Only a failure is told, and by a HUD: the menu shows the rest, and a message that has to be
 * taken back would stay, since the command is unloaded when it has drawn the menu.
 */
function Control(
  props: { title: string; icon: Icon; control: () => Promise<string> } & Loaded<Glance>,
) {
  const { title, icon, control, reload } = props;
  async function choose() {
    try {
      await control();
    } catch (error) {
      await showHUD(failureOf(error).message);
    }
    await reload();
  }
  return <MenuBarExtra.Item title={title} icon={icon} onAction={choose} />;
}

function Failed({ failure, isLoading, reload }: Loaded<Glance>) {
  const { message, help, remedy } = failure!;
  async function mend() {
    if (remedy === "preferences") return await openExtensionPreferences();
    try {
      await start({ anew: remedy === "restart", player: player() });
    } catch (error) {
      await showHUD(failureOf(error).message);
    }
    await reload();
  }
  return (
    <MenuBarExtra isLoading={isLoading} icon={Icon.SpeakerOff} tooltip={message}>
      <MenuBarExtra.Item title={message} tooltip={help} />
      {remedy && (
        <MenuBarExtra.Item title={actionTitle(remedy)} icon={Icon.Power} onAction={mend} />
      )}
      <MenuBarExtra.Item title="Look Again" icon={Icon.ArrowClockwise} onAction={reload} />
    </MenuBarExtra>
  );
}

async function chooseVoice() {
  try {
    await launchCommand({ name: "choose-voice", type: LaunchType.UserInitiated });
  } catch {
    await showHUD("The command Choose Voice is disabled in the preferences of Raycast.");
  }
}
