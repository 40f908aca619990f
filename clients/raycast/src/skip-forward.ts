import { skipForward } from "./raycast/controls";
import { run } from "./raycast/feedback";

export default async function SkipForward() {
  await run(skipForward);
}
