import { skipBack } from "./raycast/controls";
import { run } from "./raycast/feedback";

export default async function SkipBack() {
  await run(skipBack);
}
