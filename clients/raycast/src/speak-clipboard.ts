import { run } from "./raycast/feedback";
import { speakClipboard } from "./raycast/text";

export default async function SpeakClipboard() {
  await run(speakClipboard);
}
