import { run } from "./raycast/feedback";
import { speakSelection } from "./raycast/text";

export default async function SpeakSelection() {
  await run(speakSelection);
}
