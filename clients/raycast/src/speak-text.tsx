import { Action, ActionPanel, Form, Icon, type LaunchProps } from "@raycast/api";
import { useEffect } from "react";
import type { Mode } from "./player/messages";
import { run } from "./raycast/feedback";
import { useLoaded } from "./raycast/loaded";
import { manner } from "./raycast/preferences";
import { speakTyped } from "./raycast/text";
import { byLanguage, loadVoices, shortName } from "./raycast/voices";

interface Values {
  text: string;
  voice: string;
  speed: string;
  mode: string;
}

const SPEEDS = ["0.75", "0.9", "1", "1.1", "1.25", "1.5", "1.75", "2"];

type Props = LaunchProps<{ arguments: Partial<Arguments.SpeakText>; draftValues: Values }>;

export default function SpeakText(props: Props) {
  const given = props.arguments.text || props.fallbackText || "";
  const draft = props.draftValues;
  // Without voices the text is spoken all the same: by the one of the player.
  const { value: voices = [], isLoading } = useLoaded(loadVoices);
  useEffect(() => {
    if (given) void run(() => speakTyped(given));
  }, [given]);

  async function submit({ text, voice, speed, mode }: Values) {
    await run(() =>
      speakTyped(text, {
        mode: mode as Mode,
        ...(voice && { voice }),
        ...(speed && { speed: Number(speed) }),
      }),
    );
  }

  return (
    <Form
      enableDrafts
      isLoading={isLoading}
      actions={
        <ActionPanel>
          <Action.SubmitForm title="Speak" icon={Icon.SpeakerOn} onSubmit={submit} />
        </ActionPanel>
      }
    >
      <Form.TextArea id="text" title="Text" defaultValue={draft?.text ?? given} />
      <Form.Dropdown id="voice" title="Voice" defaultValue={draft?.voice ?? ""}>
        <Form.Dropdown.Item value="" title={manner().voice ?? "The one that was chosen"} />
        {byLanguage(voices).map(({ language, voices }) => (
          <Form.Dropdown.Section key={language} title={language}>
            {voices.map((voice) => (
              <Form.Dropdown.Item
                key={voice.id}
                value={voice.id}
                title={shortName(voice)}
                keywords={[voice.id]}
              />
            ))}
          </Form.Dropdown.Section>
        ))}
      </Form.Dropdown>
      <Form.Dropdown id="speed" title="Speed" defaultValue={draft?.speed ?? ""}>
        <Form.Dropdown.Item value="" title={`${manner().speed ?? "As the player"}`} />
        {SPEEDS.map((speed) => (
          <Form.Dropdown.Item key={speed} value={speed} title={speed} />
        ))}
      </Form.Dropdown>
      <Form.Dropdown
        id="mode"
        title="What Is Spoken Now"
        defaultValue={draft?.mode ?? manner().mode}
      >
        <Form.Dropdown.Item value="replace" title="Is replaced" />
        <Form.Dropdown.Item value="queue" title="Is spoken to its end first" />
        <Form.Dropdown.Item value="toggle" title="Is stopped, and nothing else" />
      </Form.Dropdown>
    </Form>
  );
}
