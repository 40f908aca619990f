import { pauseOrResume } from "./raycast/controls";
import { run } from "./raycast/feedback";

export default async function PauseResume() {
  await run(pauseOrResume);
}
