import { Action, ActionPanel, Color, Icon, List } from "@raycast/api";
import type { Voice } from "./player/messages";
import { takeVoice } from "./raycast/controls";
import { act, actionTitle, attempt, run } from "./raycast/feedback";
import { useLoaded } from "./raycast/loaded";
import { player } from "./raycast/preferences";
import { speakTyped } from "./raycast/text";
import { byLanguage, loadVoices, shortName } from "./raycast/voices";

async function load() {
  const [voices, { state }] = await Promise.all([loadVoices(), player().glance()]);
  return { voices, chosen: state.voice };
}

export default function ChooseVoice() {
  const { value, failure, isLoading, reload } = useLoaded(load);
  const sections = byLanguage(value?.voices ?? []);
  return (
    <List isLoading={isLoading} searchBarPlaceholder="Name, language or id">
      {failure ? (
        <List.EmptyView
          icon={{ source: Icon.SpeakerOff, tintColor: Color.Red }}
          title={failure.message}
          description={failure.help}
          actions={
            <ActionPanel>
              {failure.remedy && (
                <Action
                  title={actionTitle(failure.remedy)}
                  onAction={() => act(failure.remedy!).then(reload)}
                />
              )}
              <Action title="Try Again" icon={Icon.ArrowClockwise} onAction={reload} />
            </ActionPanel>
          }
        />
      ) : (
        sections.map(({ language, voices }) => (
          <List.Section key={language} title={language}>
            {voices.map((voice) => (
              <VoiceItem
                key={voice.id}
                voice={voice}
                language={language}
                chosen={voice.id === value?.chosen}
              />
            ))}
          </List.Section>
        ))
      )}
    </List>
  );
}

function VoiceItem(props: { voice: Voice; language: string; chosen: boolean }) {
  const { voice, language, chosen } = props;
  const { id, gender, grade, preview, unreadable } = voice;
  const name = shortName(voice);
  return (
    <List.Item
      title={name}
      subtitle={id}
      icon={chosen ? { source: Icon.CheckCircle, tintColor: Color.Green } : Icon.Person}
      keywords={[id, ...language.split(/\W+/)]}
      accessories={[
        ...(unreadable ? [{ icon: Icon.Warning, tooltip: unreadable }] : []),
        ...(gender ? [{ text: gender }] : []),
        ...(grade ? [{ tag: grade, tooltip: "Grade by the authors of the model" }] : []),
      ]}
      actions={
        <ActionPanel>
          <Action
            title="Use This Voice"
            icon={Icon.Check}
            onAction={() => run(() => takeVoice(id, name))}
          />
          {preview && (
            <Action
              title="Hear It"
              icon={Icon.SpeakerOn}
              shortcut={{ modifiers: ["cmd"], key: "l" }}
              onAction={() => attempt(() => speakTyped(preview, { mode: "replace", voice: id }))}
            />
          )}
        </ActionPanel>
      }
    />
  );
}
